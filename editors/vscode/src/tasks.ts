/** Commands that the user watches in a terminal: installing the server, checking the whole workspace. */

import * as vscode from "vscode";

export interface Shown {
  /** Which of its lines are findings. */
  matchers: string[];
  reveal: vscode.TaskRevealKind;
}

const ALWAYS: Shown = { matchers: [], reveal: vscode.TaskRevealKind.Always };

/** Run a command as a task; gives its exit status, undefined where the user ended it. */
export async function runTask(
  name: string,
  command: readonly string[],
  shown = ALWAYS,
): Promise<number | undefined> {
  const [file, ...args] = command;
  const folder = vscode.workspace.workspaceFolders?.[0];
  const task = new vscode.Task(
    { type: "process" },
    folder ?? vscode.TaskScope.Workspace,
    name,
    "shardlint",
    new vscode.ProcessExecution(file, args, { cwd: folder?.uri.fsPath }),
    shown.matchers,
  );
  task.presentationOptions = { reveal: shown.reveal, clear: true };
  const execution = await vscode.tasks.executeTask(task);
  return new Promise((resolve) => {
    const subscription = vscode.tasks.onDidEndTaskProcess((event) => {
      if (event.execution === execution) {
        subscription.dispose();
        resolve(event.exitCode);
      }
    });
  });
}
