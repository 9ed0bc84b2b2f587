/** Commands that the user watches in a terminal: installing the server, checking the whole workspace. */

import * as vscode from "vscode";

/** Run a command as a task; gives its exit status, undefined where the user ended it. */
export async function runTask(
  name: string,
  command: readonly string[],
  matchers: string[] = [],
): Promise<number | undefined> {
  const [file, ...args] = command;
  const folder = vscode.workspace.workspaceFolders?.[0];
  const task = new vscode.Task(
    { type: "process" },
    folder ?? vscode.TaskScope.Workspace,
    name,
    "shardlint",
    new vscode.ProcessExecution(file, args, { cwd: folder?.uri.fsPath }),
    matchers,
  );
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
