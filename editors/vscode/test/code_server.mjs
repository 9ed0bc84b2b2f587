// The extension in a real Visual Studio Code: code-server, seen by Chromium. Not part of `make vscode`, since neither comes
// with the packages of this folder:
//
//     CODE_SERVER=…/code-server/out/node/entry.js CHROMIUM=/usr/bin/chromium npm run browser
//
// IMAGES=folder keeps the pictures that the documentation shows.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { chromium } from "playwright-core";

const CODE_SERVER = needed("CODE_SERVER");
const CHROMIUM = needed("CHROMIUM");
const PYTHON = resolve(process.env.SHARDLINT_PYTHON ?? "../../.venv/default/bin/python");
const PATIENCE = 120_000;

const MODEL = `\
import jax.numpy as jnp
from jax import lax
from shardtypes import f32, typed_shard_map


def norm(x: f32["B/d L M"], scale: f32["M"]) -> f32["B/d L M"]:
    mean = jnp.mean(x * x, axis=-1)
    return x / jnp.sqrt(mean) * scale


@typed_shard_map
def mlp(x: f32["B/d M"], up: f32["M F/t"], down: f32["F/t M"]) -> f32["B/d M"]:
    hidden = jnp.tanh(x @ up)
    return lax.psum(hidden @ down, "t")  # shardlint: ignore[ST301]
`;
/** Never opened. */
const OTHER = `\
from shardtypes import f32


def first(x: f32["M"]) -> f32["N"]:
    return x
`;
/** Stands in for the Python extension, which no package registry has: the same documented interface, two interpreters. */
const SELECTING = {
  "package.json": JSON.stringify({
    name: "python",
    publisher: "ms-python",
    version: "0.0.1",
    engines: { vscode: "^1.91.0" },
    activationEvents: ["onLanguage:python"],
    main: "./main.js",
    contributes: { commands: [{ command: "python.setInterpreter", title: "Select" }] },
  }),
  "main.js": `
const vscode = require("vscode");
exports.activate = () => {
  const folder = vscode.workspace.workspaceFolders[0].uri.fsPath;
  const selected = new vscode.EventEmitter();
  let path = folder.endsWith("bare") ? folder + "/env/bin/python" : undefined;
  vscode.commands.registerCommand("python.setInterpreter", () => {
    path = ${JSON.stringify(PYTHON)};
    selected.fire({ path });
  });
  return {
    ready: Promise.resolve(),
    environments: {
      getActiveEnvironmentPath: () => ({ path }),
      resolveEnvironment: async ({ path }) => path && { executable: { uri: vscode.Uri.file(path) } },
      onDidChangeActiveEnvironmentPath: selected.event,
    },
  };
};
`,
};
const SETTINGS = {
  "editor.fontSize": 14,
  "editor.minimap.enabled": false,
  "extensions.ignoreRecommendations": true,
  "git.enabled": false,
  "security.workspace.trust.enabled": false,
  "telemetry.telemetryLevel": "off",
  "workbench.colorTheme": "Default Light Modern",
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
};

const root = mkdtempSync(join(tmpdir(), "shardlint-code-"));
const data = join(root, "data");
const extensions = join(root, "extensions");
const places = ["--user-data-dir", data, "--extensions-dir", extensions, "--config", join(root, "config.yaml")];
const ended = [];
let page;

try {
  mkdirSync(join(data, "User"), { recursive: true });
  writeFileSync(join(data, "User", "settings.json"), JSON.stringify(SETTINGS));
  writeFileSync(join(root, "config.yaml"), "auth: none\n");
  for (const vsix of ["dist/shardlint.vsix", packaged(SELECTING)]) {
    const installed = spawnSync(process.execPath, [CODE_SERVER, ...places, "--install-extension", vsix]);
    assert.equal(installed.status, 0, String(installed.stderr));
  }
  const port = await freePort();
  const options = ["--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry", "--disable-update-check"];
  const server = spawn(process.execPath, [CODE_SERVER, ...places, ...options], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, PATH: "/usr/bin:/bin" }, // without a shardlint
  });
  ended.push(() => server.kill());
  await listening(server);
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  ended.push(() => browser.close());
  page = await browser.newPage({ viewport: { width: 900, height: 440 } });
  page.setDefaultTimeout(PATIENCE);
  const at = (folder) => `http://127.0.0.1:${port}/?folder=${encodeURIComponent(folder)}`;

  await withoutServer(page, at);
  await withServer(page, at);
  console.log("code-server: 2 passed, 0 failed");
} catch (error) {
  await page?.screenshot({ path: join(tmpdir(), "shardlint-code-failure.png") });
  throw error;
} finally {
  for (const end of ended.reverse()) {
    await end();
  }
  rmSync(root, { recursive: true, force: true, maxRetries: 5 });
}

/** No server in the selected interpreter nor on the PATH: the extension says so, and follows when another is selected. */
async function withoutServer(page, at) {
  const folder = join(root, "bare");
  const venv = spawnSync(PYTHON, ["-m", "venv", "--without-pip", join(folder, "env")]);
  assert.equal(venv.status, 0, String(venv.stderr));
  writeFileSync(join(folder, "model.py"), MODEL);
  await open(page, at(folder));
  const notice = page.locator(".notification-list-item", { hasText: "bare/env/bin/python has no shardtypes" });
  for (const choice of ["Install", "Settings"]) {
    await notice.getByRole("button", { name: choice, exact: true }).waitFor();
  }
  await status(page, "shardlint: no server");
  await command(page, "Notifications: Show Notifications");
  await notice.getByRole("button", { name: "Select interpreter", exact: true }).click();
  await page.locator(".squiggly-error").first().waitFor();
}

/** An environment with the server: findings, hover, hints, state, fixes, settings that a running server takes over. */
async function withServer(page, at) {
  const folder = join(root, "project");
  mkdirSync(folder);
  symlinkSync(dirname(dirname(PYTHON)), join(folder, ".venv"));
  writeFileSync(join(folder, "model.py"), MODEL);
  writeFileSync(join(folder, "other.py"), OTHER);
  writeFileSync(join(folder, "pyproject.toml"), "[tool.shardlint]\nmesh = { d = 2, t = 4 }\n");
  await open(page, at(folder));
  await page.locator(".squiggly-error").first().waitFor();
  const version = JSON.parse(readFileSync("package.json", "utf8")).version;
  await status(page, `shardlint ${version}`);
  await page.keyboard.press("Escape");

  const hint = page.locator(".view-line", { hasText: "float32['B/d L']" });
  await hint.first().waitFor();
  await page.keyboard.press("Control+B"); // room for the code
  await point(page, "sqrt");
  const hover = page.locator(".monaco-hover:visible", { hasText: "do not broadcast" });
  await hover.waitFor();
  await picture(page, "vscode-finding.png");
  await page.mouse.move(5, 5, { steps: 5 });
  await hover.waitFor({ state: "hidden" });
  await point(page, "hidden");
  await page.locator(".monaco-hover:visible", { hasText: "float32['B/d F/t']" }).waitFor();
  await picture(page, "vscode-hover.png");
  await page.mouse.move(5, 5);

  await command(page, "shardlint: Fix All in File");
  await page.locator(".view-line", { hasText: "ignore" }).waitFor({ state: "detached" });

  await toggle(page, "shardlint.inlayHints");
  await hint.first().waitFor({ state: "detached" });
  await toggle(page, "shardlint.enable");
  await page.locator(".squiggly-error").first().waitFor({ state: "detached" });
  await toggle(page, "shardlint.enable");
  await page.locator(".squiggly-error").first().waitFor();

  await command(page, "shardlint: Check Workspace");
  const problems = page.locator(".markers-panel .monaco-list-row");
  for (const text of ["other.py", "only the result of first has a dimension 'N'"]) {
    await problems.filter({ hasText: text }).first().waitFor();
  }
  assert.equal(await problems.filter({ hasText: "do not broadcast" }).count(), 1, "not from server and task");
  await picture(page, "vscode-workspace.png");

  const before = new Set();
  for (let times = 0; times < 4; times += 1) {
    const running = await serverOf(folder, before);
    before.add(running);
    process.kill(running, "SIGKILL");
  }
  const notice = page.locator(".notification-list-item", { hasText: "4 times within 3 minutes and is not started again" });
  await command(page, "Notifications: Show Notifications");
  await notice.getByRole("button", { name: "Restart", exact: true }).click();
  await serverOf(folder, before);
}

async function open(page, address) {
  await page.goto(address);
  await page.locator(".monaco-workbench").waitFor();
  await page.locator(".explorer-folders-view .monaco-list-row", { hasText: "model.py" }).dblclick();
  await page.locator(".view-line", { hasText: "typed_shard_map" }).first().waitFor();
}

/** An extension of these files, packaged. */
function packaged(files) {
  const folder = mkdtempSync(join(root, "extension-"));
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text);
  }
  const vsix = join(folder, "it.vsix");
  const options = ["package", "--allow-missing-repository", "--skip-license", "--no-dependencies", "--out", vsix];
  const done = spawnSync(resolve("node_modules/.bin/vsce"), options, { cwd: folder });
  assert.equal(done.status, 0, String(done.stderr));
  return vsix;
}

/** The language status shows a text when its braces are pressed. */
async function status(page, text) {
  await page.locator(".statusbar-item[id='status.languageStatus']").click();
  await page.locator(".hover-language-status", { hasText: text }).first().waitFor();
}

async function command(page, name) {
  await page.locator(".view-line", { hasText: "typed_shard_map" }).first().click();
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget input[type=text]").fill(`>${name}`);
  await page.locator(".quick-input-list .monaco-list-row", { hasText: name }).first().click();
}

/** Tick a setting, or take the tick away, as a user does; then show the code again. */
async function toggle(page, setting) {
  await command(page, "shardlint: Open Settings");
  const box = page.locator(`.settings-editor [data-key="${setting}"] .setting-value-checkbox`);
  await box.click();
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget input[type=text]").fill(">View: Close Editor");
  await page.locator(".quick-input-list .monaco-list-row", { hasText: "View: Close Editor" }).first().click();
  await page.locator(".view-line", { hasText: "typed_shard_map" }).first().waitFor();
}

/** Move the mouse to a word of the code, as a hand does. */
async function point(page, text) {
  const span = page.locator(".view-line span span").filter({ hasText: text }).first();
  const box = await span.boundingBox();
  const inside = (await span.textContent()).indexOf(text) + text.length / 2;
  const x = box.x + (box.width * inside) / (await span.textContent()).length;
  await page.mouse.move(x - 40, box.y + 40);
  await page.mouse.move(x, box.y + box.height / 2, { steps: 10 });
}

async function picture(page, name) {
  if (process.env.IMAGES !== undefined) {
    await page.waitForTimeout(1500); // what fades in, or is asked for, is there then
    await page.screenshot({ path: join(process.env.IMAGES, name) });
  }
}

/** The process of the server that runs for a folder, once there is one that was not there before. */
async function serverOf(folder, before) {
  const command = `${join(folder, ".venv/bin/python")}\0-P\0-m\0shardlint\0server\0`;
  for (const end = Date.now() + PATIENCE; Date.now() < end; ) {
    for (const each of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      if (!before.has(Number(each)) && commandOf(each) === command) {
        return Number(each);
      }
    }
    await new Promise((done) => setTimeout(done, 200));
  }
  throw new Error(`no server runs for ${folder}`);
}

function commandOf(processId) {
  try {
    return readFileSync(`/proc/${processId}/cmdline`, "utf8");
  } catch {
    return ""; // it has ended
  }
}

function needed(name) {
  const value = process.env[name];
  assert.ok(value, `set ${name}: see the head of this file`);
  return value;
}

function listening(server) {
  return new Promise((done, failed) => {
    server.once("exit", (status) => failed(new Error(`code-server ended with ${status}`)));
    server.stdout.on("data", (text) => {
      if (String(text).includes("listening on http")) {
        done();
      }
    });
  });
}

function freePort() {
  return new Promise((done) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}
