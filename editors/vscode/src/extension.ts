/** The entry point: the commands, the status bar, and what makes the server start anew. */

import * as vscode from "vscode";
import { DOCUMENTS } from "./client";
import { Controller } from "./controller";
import { type Missing, which } from "./finding";
import { installCommand } from "./installing";
import * as messages from "./messages";
import { hasPythonExtension, onInterpreterSelected } from "./python";
import { RUNNING, STARTING } from "./settings";
import { type Severity, type State, shown } from "./status";
import { runTask } from "./tasks";

const SEVERITIES: Record<Severity, vscode.LanguageStatusSeverity> = {
  information: vscode.LanguageStatusSeverity.Information,
  warning: vscode.LanguageStatusSeverity.Warning,
  error: vscode.LanguageStatusSeverity.Error,
};
const FIX_ALL = "source.fixAll.shardlint";

let controller: Controller | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const output = vscode.window.createOutputChannel("shardlint", { log: true });
  const item = vscode.languages.createLanguageStatusItem("shardlint", DOCUMENTS);
  item.name = "shardlint";
  const show = (state: State) => showIn(item, state);
  const owner = new Controller(output, show, askToInstall, askToRestart);
  controller = owner;

  function command(name: string, run: () => unknown): void {
    context.subscriptions.push(vscode.commands.registerCommand(name, run));
  }
  command("shardlint.restart", () => owner.restart());
  command("shardlint.showOutput", () => output.show(true));
  command("shardlint.openSettings", openSettings);
  command("shardlint.install", () => install(owner));
  command("shardlint.fixAll", () => fixAll(owner));
  command("shardlint.checkWorkspace", () => checkWorkspace(owner));

  context.subscriptions.push(output, item, owner);
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      const changed = (name: string) => event.affectsConfiguration(`shardlint.${name}`);
      if (STARTING.some(changed)) {
        await owner.restart();
      } else if (RUNNING.some(changed)) {
        await owner.settingsChanged();
      }
    }),
    vscode.workspace.onDidChangeWorkspaceFolders(() => owner.restart()),
  );
  await owner.restart();
  // After the start: the Python extension tells of the interpreter that is selected when it comes up, too.
  context.subscriptions.push(await onInterpreterSelected(() => void owner.restart()));
}

export async function deactivate(): Promise<void> {
  await controller?.stop();
}

function showIn(item: vscode.LanguageStatusItem, state: State): void {
  const { text, detail, severity, busy, command } = shown(state);
  item.text = text;
  item.detail = detail;
  item.severity = SEVERITIES[severity];
  item.busy = busy;
  item.command = { command: command.id, title: command.title };
}

// --- what the user is asked ------------------------------------------------------------------------------------

function askToInstall(missing: Missing): void {
  const choices: Record<string, string> = {};
  if (missing.installInto !== undefined) {
    choices.Install = "shardlint.install";
  }
  if (hasPythonExtension()) {
    choices["Select interpreter"] = "python.setInterpreter";
  }
  choices.Settings = "shardlint.openSettings";
  void ask(vscode.window.showWarningMessage, missing.message, choices);
}

function askToRestart(message: string): void {
  const choices = {
    Restart: "shardlint.restart",
    Settings: "shardlint.openSettings",
    "Show output": "shardlint.showOutput",
  };
  void ask(vscode.window.showErrorMessage, message, choices);
}

async function ask(
  show: (message: string, ...choices: string[]) => Thenable<string | undefined>,
  message: string,
  commands: Record<string, string>,
): Promise<void> {
  const chosen = await show(`shardlint: ${message}`, ...Object.keys(commands));
  if (chosen !== undefined) {
    await vscode.commands.executeCommand(commands[chosen]);
  }
}

// --- commands ---------------------------------------------------------------------------------------------------

function openSettings(): Thenable<unknown> {
  return vscode.commands.executeCommand("workbench.action.openSettings", "@ext:shardtypes.shardlint");
}

async function install(owner: Controller): Promise<void> {
  const interpreter = owner.installInto ?? (await owner.interpreter())?.path;
  if (interpreter === undefined) {
    void vscode.window.showWarningMessage(`shardlint: ${messages.noInterpreter()}`);
    return;
  }
  const command = await installCommand(interpreter, which("uv", process.env.PATH ?? ""));
  const status = await runTask("install the server", command);
  if (status !== 0) {
    void vscode.window.showErrorMessage(`shardlint: ${messages.notInstalled(status)}`);
    return;
  }
  void vscode.window.showInformationMessage(`shardlint: ${messages.installed(interpreter)}`);
  await owner.restart();
}

async function fixAll(owner: Controller): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined || !owner.isRunning) {
    void vscode.window.showWarningMessage(`shardlint: ${messages.notRunning()}`);
    return;
  }
  const document = editor.document;
  const whole = new vscode.Range(0, 0, document.lineCount, 0);
  const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
    "vscode.executeCodeActionProvider",
    document.uri,
    whole,
    FIX_ALL,
  );
  const edit = actions.find((action) => action.kind?.value === FIX_ALL)?.edit;
  if (edit === undefined) {
    void vscode.window.showInformationMessage(`shardlint: ${messages.nothingToFix()}`);
    return;
  }
  await vscode.workspace.applyEdit(edit);
}

async function checkWorkspace(owner: Controller): Promise<void> {
  const command = owner.checkCommand;
  if (command === undefined) {
    void vscode.window.showWarningMessage(`shardlint: ${messages.notRunning()}`);
    return;
  }
  const folders = vscode.workspace.workspaceFolders ?? [];
  const paths = folders.map((folder) => folder.uri.fsPath);
  const options = ["--format", "concise", "--color", "never", "--exit-zero", "--"];
  const matching = { matchers: ["$shardlint"], reveal: vscode.TaskRevealKind.Silent };
  const status = await runTask("check the workspace", [...command, ...options, ...paths], matching);
  if (status !== 0) {
    void vscode.window.showErrorMessage(`shardlint: ${messages.notChecked(status)}`);
    return;
  }
  await vscode.commands.executeCommand("workbench.actions.view.problems");
}
