import assert from "node:assert/strict";
import test from "node:test";
import { Restarts } from "../src/restarts";
import { forServer, readSettings } from "../src/settings";
import { type State, shown } from "../src/status";
import { isAtLeast } from "../src/versions";

const VARIABLES = { workspaceFolder: "/project", userHome: "/home/me", env: { TOOLS: "/tools" } };

test("versions are compared number by number", () => {
  for (const newer of ["0.1.0", "0.1.0.dev3", "0.1", "0.10.0", "1", "0.1.1rc1"]) {
    assert.ok(isAtLeast(newer, "0.1.0"), newer);
  }
  for (const older of ["0.0.9", "0.0", "", "unknown"]) {
    assert.ok(!isAtLeast(older, "0.1.0"), older);
  }
  assert.ok(isAtLeast("3.11.0", "3.11"));
  assert.ok(!isAtLeast("3.9.18", "3.11"));
});

test("settings that are not set have their defaults", () => {
  const { settings, problems } = readSettings(() => undefined, VARIABLES);
  assert.deepEqual(settings, { enable: true, path: "", interpreter: "", args: [], inlayHints: true, shapeHints: true, shardingHints: true, hoverPictures: true, workspaceFindings: false });
  assert.deepEqual(problems, []);
  assert.deepEqual(forServer(settings), { inlayHints: true, shapeHints: true, shardingHints: true, hoverPictures: true, workspaceFindings: false });
});

test("variables in settings are replaced", () => {
  const given: Record<string, unknown> = {
    path: "${env:TOOLS}/shardlint",
    interpreter: " ${workspaceFolder}/env/bin/python ",
    args: ["--config", "${userHome}/shardlint.toml"],
  };
  const { settings, problems } = readSettings((name) => given[name], VARIABLES);
  assert.equal(settings.path, "/tools/shardlint");
  assert.equal(settings.interpreter, "/project/env/bin/python");
  assert.deepEqual(settings.args, ["--config", "/home/me/shardlint.toml"]);
  assert.deepEqual(problems, []);
});

test("what is wrong with a setting is said", () => {
  const given: Record<string, unknown> = { enable: "yes", args: "--mesh", path: "${file}/x" };
  const { settings, problems } = readSettings((name) => given[name], VARIABLES);
  assert.deepEqual([settings.enable, settings.args], [true, []]);
  assert.deepEqual(problems.sort(), [
    'shardlint.args must be a list of strings, got "--mesh"; the default is used',
    'shardlint.enable must be true or false, got "yes"; the default is used',
    "shardlint.path has the variable ${file}, which is not known here",
  ]);
});

test("a server that ends again and again is not started forever", () => {
  const restarts = new Restarts();
  const minute = 60_000;
  assert.deepEqual([0, 1, 2, 3].map((now) => restarts.again(now)), [true, true, true, false]);
  assert.equal(restarts.count, 4);
  assert.ok(restarts.again(4 * minute), "what was minutes ago does not count");
  restarts.forget();
  assert.equal(restarts.count, 0);
});

test("each state of the server says what it is and what to do", () => {
  const states: [State, string][] = [
    [{ kind: "disabled" }, "shardlint: off, information, Settings"],
    [{ kind: "starting" }, "shardlint, information, Show output"],
    [{ kind: "running", version: "0.1.0", command: ["/env/bin/python"] }, "shardlint 0.1.0, information, Restart"],
    [{ kind: "missing", message: "none", installable: true }, "shardlint: no server, warning, Install"],
    [{ kind: "missing", message: "none", installable: false }, "shardlint: no server, warning, Show output"],
    [{ kind: "failed", message: "it ended" }, "shardlint: stopped, error, Restart"],
  ];
  for (const [state, want] of states) {
    const { text, severity, command, busy } = shown(state);
    assert.equal(`${text}, ${severity}, ${command.title}`, want);
    assert.equal(busy, state.kind === "starting");
  }
});
