import assert from "node:assert/strict";
import { chmodSync, existsSync } from "node:fs";
import * as path from "node:path";
import test from "node:test";
import { type Missing, type Places, type Server, findServer, interpreterOf, which } from "../src/finding";
import { installCommand } from "../src/installing";
import { refusal, verdict } from "../src/probe";
import { run } from "../src/processes";
import { PYTHON, environment, folderFor, write } from "./support";

const SHARDLINT = path.join(path.dirname(PYTHON), "shardlint");
const NOWHERE: Places = { executable: "", interpreter: undefined, onPath: undefined };

async function found(places: Partial<Places>): Promise<Server> {
  const result = await findServer({ ...NOWHERE, ...places });
  assert.equal(result.kind, "server", JSON.stringify(result));
  return result as Server;
}

async function missing(places: Partial<Places>): Promise<Missing> {
  const result = await findServer({ ...NOWHERE, ...places });
  assert.equal(result.kind, "missing", JSON.stringify(result));
  return result as Missing;
}

test("there is an environment to test with", () => {
  assert.ok(existsSync(PYTHON), `${PYTHON}: make env, or set SHARDLINT_PYTHON`);
});

test("the selected interpreter runs the server", async () => {
  const server = await found({ interpreter: { path: PYTHON, choice: "selected" }, onPath: "/gone" });
  assert.deepEqual(server.command, [PYTHON, "-P", "-m", "shardlint", "server"]);
  assert.match(server.version, /^\d+\.\d+/);
  assert.equal(server.passedOver, undefined);
});

test("a setting goes before the selected interpreter, and is not replaced", async () => {
  const selected = { path: PYTHON, choice: "selected" } as const;
  const server = await found({ executable: SHARDLINT, interpreter: selected });
  assert.deepEqual(server.command, [SHARDLINT, "server"]);
  const gone = await missing({ executable: "/gone/shardlint", interpreter: selected });
  assert.match(gone.message, /^shardlint.path is \/gone\/shardlint, which does not exist/);
  const nobody = await missing({
    interpreter: { path: "/gone/python", choice: "setting" },
    onPath: SHARDLINT,
  });
  assert.match(nobody.message, /^shardlint.interpreter is \/gone\/python, which does not exist/);
});

test("an interpreter without the server gives way to the PATH, or is one to install into", async (t) => {
  const bare = await environment(path.join(folderFor(t), "bare"), {});
  for (const choice of ["selected", "folder"] as const) {
    const server = await found({ interpreter: { path: bare, choice }, onPath: SHARDLINT });
    assert.deepEqual(server.command, [SHARDLINT, "server"]);
    assert.match(server.passedOver?.message ?? "", /has no shardtypes/);
    const refused = await missing({ interpreter: { path: bare, choice } });
    assert.equal(refused.installInto, bare);
    assert.equal(
      refused.message,
      `${bare} has no shardtypes: install it with: pip install 'shardtypes[server]'`,
    );
  }
  const set = await missing({ interpreter: { path: bare, choice: "setting" }, onPath: SHARDLINT });
  assert.equal(set.installInto, bare);
});

test("what an environment lacks is said, with the remedy", async (t) => {
  const folder = folderFor(t);
  const cases: [Record<string, string>, RegExp][] = [
    [{ shardtypes: "0.1.0" }, /has shardtypes, but not pygls, which its server needs: install it with/],
    [{ shardtypes: "0.0.3", pygls: "2.0.0" }, /has shardtypes 0.0.3; this extension needs 0.1.0 or newer: upgrade/],
    [{ shardtypes: "0.1.0", pygls: "1.3.1" }, /has pygls 1.3.1; the server needs 2.0 or newer: upgrade/],
  ];
  for (const [index, [versions, want]] of cases.entries()) {
    const interpreter = await environment(path.join(folder, String(index)), versions);
    const refused = await missing({ interpreter: { path: interpreter, choice: "selected" } });
    assert.match(refused.message, want);
    assert.equal(refused.installInto, interpreter);
  }
});

test("a Python that is too old is not one to install into", () => {
  const old = verdict("/usr/bin/python3", { python: "3.9.18", shardtypes: null, pygls: null });
  assert.ok("problem" in old);
  assert.ok(!old.problem.installable);
  assert.match(old.problem.message, /is Python 3.9.18; the server needs Python 3.11 or newer: select another/);
});

test("what is no Python, and no shardlint, is said in its own words", async (t) => {
  const folder = folderFor(t);
  const program = write(path.join(folder, "program"), "#!/bin/sh\necho 'not me' >&2\nexit 3\n");
  chmodSync(program, 0o755);
  const python = await missing({ interpreter: { path: program, choice: "selected" } });
  assert.equal(python.message, `${program} does not run as Python: not me`);
  assert.equal(python.installInto, undefined);
  const executable = await missing({ executable: program });
  assert.equal(executable.message, `${program} does not start the server: not me`);
});

test("nothing selected and nothing on the PATH", async () => {
  assert.match((await missing({})).message, /^no Python interpreter is selected and no shardlint is on the PATH/);
});

test("modules of the folder that is open are not imported", async (t) => {
  const folder = folderFor(t);
  for (const name of ["json.py", "shardlint.py", "pygls.py", "logging.py"]) {
    write(path.join(folder, name), "raise SystemExit('the wrong module')\n");
  }
  const before = process.cwd();
  process.chdir(folder);
  t.after(() => process.chdir(before));
  const server = await found({ interpreter: { path: PYTHON, choice: "selected" } });
  const outcome = await run([...server.command, "--version"], folder);
  assert.equal(outcome.stdout, `shardlint ${server.version}\n`, outcome.stderr);
});

test("options that the server does not take are said before it starts", async (t) => {
  const folder = folderFor(t);
  const server = await found({ executable: SHARDLINT });
  assert.equal(await refusal(server.command, [], folder), undefined);
  assert.equal(await refusal(server.command, ["--mesh", "d=2,t=4"], folder), undefined);
  assert.equal(
    await refusal(server.command, ["--mush", "d=2"], folder),
    "the server does not take shardlint.args, --mush d=2: " +
      "shardlint: unknown option --mush: did you mean --mesh?",
  );
  assert.match(String(await refusal(server.command, ["--select", "X1"], folder)), /'X1' in --select is not a rule/);
});

test("a folder's own environment, and executables on a search path", async (t) => {
  const folder = folderFor(t);
  assert.equal(interpreterOf(folder), undefined);
  const interpreter = write(path.join(folder, ".venv", "bin", "python"), "");
  assert.equal(interpreterOf(folder), interpreter);
  const search = ["/gone", "", folder, path.dirname(SHARDLINT)].join(path.delimiter);
  write(path.join(folder, "shardlint"), "not to be run");
  assert.equal(which("shardlint", search), SHARDLINT);
  assert.equal(which("shardlint", folder), undefined);
});

test("pip installs, or uv where there is no pip", async (t) => {
  const bare = await environment(path.join(folderFor(t), "bare"), {});
  const pip = [PYTHON, "-m", "pip", "install", "--upgrade", "shardtypes[server]"];
  assert.deepEqual(await installCommand(PYTHON, "/bin/uv"), pip);
  assert.deepEqual(await installCommand(bare, "/bin/uv"), [
    "/bin/uv", "pip", "install", "--python", bare, "--upgrade", "shardtypes[server]",
  ]);
});
