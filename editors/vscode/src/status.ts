/** The state of the server, and what the status bar says of it. */

export type State =
  | { kind: "disabled" }
  | { kind: "starting" }
  | { kind: "running"; version: string; command: readonly string[] }
  | { kind: "missing"; message: string; installable: boolean }
  | { kind: "failed"; message: string };

export type Severity = "information" | "warning" | "error";

/** What is shown; `command` is offered beside it. */
export interface Shown {
  text: string;
  detail: string;
  severity: Severity;
  busy: boolean;
  command: { id: string; title: string };
}

const RESTART = { id: "shardlint.restart", title: "Restart" };
const OUTPUT = { id: "shardlint.showOutput", title: "Show output" };
const INSTALL = { id: "shardlint.install", title: "Install" };
const SETTINGS = { id: "shardlint.openSettings", title: "Settings" };

/** What the status bar says of a state. */
export function shown(state: State): Shown {
  switch (state.kind) {
    case "disabled":
      return said("shardlint: off", "shardlint.enable is false", "information", SETTINGS);
    case "starting":
      return { ...said("shardlint", "starting", "information", OUTPUT), busy: true };
    case "running":
      return said(`shardlint ${state.version}`, state.command[0], "information", RESTART);
    case "missing":
      return said("shardlint: no server", state.message, "warning", state.installable ? INSTALL : OUTPUT);
    case "failed":
      return said("shardlint: stopped", state.message, "error", RESTART);
  }
}

function said(text: string, detail: string, severity: Severity, command: Shown["command"]): Shown {
  return { text, detail, severity, busy: false, command };
}
