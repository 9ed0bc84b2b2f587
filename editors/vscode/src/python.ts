/** The Python extension, as far as it tells which interpreter is selected. It need not be there. */

import * as vscode from "vscode";

/** The part of its public interface that is used here. */
interface PythonApi {
  ready?: Promise<void>;
  environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(
      environment: { path: string },
    ): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

const ID = "ms-python.python";

/** The interpreter that is selected for a folder; undefined without the Python extension, or where it has none. */
export async function selectedInterpreter(
  folder: vscode.Uri | undefined,
): Promise<string | undefined> {
  const environments = (await pythonApi())?.environments;
  if (environments === undefined) {
    return undefined;
  }
  const active = environments.getActiveEnvironmentPath(folder);
  const resolved = await environments.resolveEnvironment(active);
  return resolved?.executable.uri?.fsPath;
}

/** Call back when another interpreter is selected. */
export async function onInterpreterSelected(changed: () => void): Promise<vscode.Disposable> {
  const environments = (await pythonApi())?.environments;
  if (environments === undefined) {
    return new vscode.Disposable(() => undefined);
  }
  return environments.onDidChangeActiveEnvironmentPath(changed);
}

/** Whether the Python extension is there, and with it the command that selects an interpreter. */
export function hasPythonExtension(): boolean {
  return vscode.extensions.getExtension(ID) !== undefined;
}

async function pythonApi(): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>(ID);
  if (extension === undefined) {
    return undefined;
  }
  const api = await extension.activate();
  await api.ready;
  return api;
}
