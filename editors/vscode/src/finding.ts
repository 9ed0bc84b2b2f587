/** Finds the server: settings first, then the environment of the project, then the PATH. */

import { accessSync, constants, statSync } from "node:fs";
import * as path from "node:path";
import * as messages from "./messages";
import { type Probed, type Problem, probeExecutable, probeInterpreter, serverOf } from "./probe";

/** Who chose an interpreter: the user in our setting, the Python extension, or the folder, which has a `.venv`. */
export type Choice = "setting" | "selected" | "folder";

export interface Interpreter {
  path: string;
  choice: Choice;
}

/** Where to look. An empty string is a setting that is not set. */
export interface Places {
  executable: string;
  interpreter: Interpreter | undefined;
  onPath: string | undefined;
}

/** A server that can be started; `passedOver` says why the environment of the project has none. */
export interface Server {
  kind: "server";
  command: string[];
  version: string;
  passedOver: Problem | undefined;
}

/** No server: `installInto` is the interpreter that it can be installed for. */
export interface Missing {
  kind: "missing";
  message: string;
  installInto: string | undefined;
}

/** Look for the server. What a setting names is not replaced by anything else. */
export async function findServer(places: Places): Promise<Server | Missing> {
  if (places.executable !== "") {
    if (!isFile(places.executable)) {
      return missing(messages.noSuchFile("shardlint.path", places.executable));
    }
    return ofExecutable(places.executable, await probeExecutable(places.executable));
  }
  const interpreter = places.interpreter;
  if (interpreter === undefined) {
    return onPath(places.onPath, undefined);
  }
  if (interpreter.choice === "setting" && !isFile(interpreter.path)) {
    return missing(messages.noSuchFile("shardlint.interpreter", interpreter.path));
  }
  const probed = await probeInterpreter(interpreter.path);
  if ("version" in probed) {
    return server(serverOf(interpreter.path), probed.version);
  }
  const installInto = probed.problem.installable ? interpreter.path : undefined;
  const refused: Missing = { kind: "missing", message: probed.problem.message, installInto };
  if (interpreter.choice === "setting") {
    return refused;
  }
  const other = await onPath(places.onPath, probed.problem);
  return other.kind === "server" ? other : refused;
}

async function onPath(
  executable: string | undefined,
  passedOver: Problem | undefined,
): Promise<Server | Missing> {
  if (executable === undefined) {
    return missing(messages.nowhere());
  }
  return ofExecutable(executable, await probeExecutable(executable), passedOver);
}

function ofExecutable(
  executable: string,
  probed: Probed,
  passedOver: Problem | undefined = undefined,
): Server | Missing {
  if ("problem" in probed) {
    return missing(probed.problem.message);
  }
  return server([executable, "server"], probed.version, passedOver);
}

function server(
  command: string[],
  version: string,
  passedOver: Problem | undefined = undefined,
): Server {
  return { kind: "server", command, version, passedOver };
}

function missing(message: string): Missing {
  return { kind: "missing", message, installInto: undefined };
}

/** The interpreter of a folder's own virtual environment. */
export function interpreterOf(folder: string): string | undefined {
  const windows = path.join(folder, ".venv", "Scripts", "python.exe");
  const others = path.join(folder, ".venv", "bin", "python");
  return [others, windows].find(isFile);
}

/** The first executable of a name on a search path (the variable PATH). */
export function which(name: string, searchPath: string): string | undefined {
  const names = process.platform === "win32" ? [`${name}.exe`] : [name];
  for (const folder of searchPath.split(path.delimiter)) {
    for (const each of names) {
      const candidate = path.join(folder, each);
      if (folder !== "" && isExecutable(candidate)) {
        return candidate;
      }
    }
  }
  return undefined;
}

function isFile(candidate: string): boolean {
  return statSync(candidate, { throwIfNoEntry: false })?.isFile() ?? false;
}

function isExecutable(candidate: string): boolean {
  try {
    accessSync(candidate, constants.X_OK);
  } catch {
    return false; // not there, or not ours to run
  }
  return isFile(candidate);
}
