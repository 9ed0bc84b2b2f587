/** Every sentence that a user reads, in one place. */

import { OLDEST_PYGLS, OLDEST_PYTHON, OLDEST_SHARDTYPES } from "./versions";

/** What is installed where the server is missing. */
export const PACKAGE = "shardtypes[server]";

const INSTALL = `install it with: pip install '${PACKAGE}'`;
const UPGRADE = `upgrade with: pip install --upgrade '${PACKAGE}'`;

// --- why the server does not run --------------------------------------------------------------------------------

export function notPython(interpreter: string, reason: string): string {
  return `${interpreter} does not run as Python: ${lastLine(reason)}`;
}

export function notShardlint(executable: string, reason: string): string {
  return `${executable} does not start the server: ${lastLine(reason)}`;
}

export function oldPython(interpreter: string, version: string): string {
  return (
    `${interpreter} is Python ${version}; the server needs Python ${OLDEST_PYTHON} or newer: ` +
    "select another interpreter, or set shardlint.interpreter to one"
  );
}

export function noShardtypes(interpreter: string): string {
  return `${interpreter} has no shardtypes: ${INSTALL}`;
}

export function oldShardtypes(where: string, version: string): string {
  return `${where} has shardtypes ${version}; this extension needs ${OLDEST_SHARDTYPES} or newer: ${UPGRADE}`;
}

export function noPygls(interpreter: string): string {
  return `${interpreter} has shardtypes, but not pygls, which its server needs: ${INSTALL}`;
}

export function oldPygls(interpreter: string, version: string): string {
  return `${interpreter} has pygls ${version}; the server needs ${OLDEST_PYGLS} or newer: ${UPGRADE}`;
}

export function noSuchFile(setting: string, path: string): string {
  return `${setting} is ${path}, which does not exist: correct the setting, or leave it empty`;
}

export function nowhere(): string {
  return (
    "no Python interpreter is selected and no shardlint is on the PATH: " +
    "select an interpreter, or set shardlint.interpreter or shardlint.path"
  );
}

// --- settings ---------------------------------------------------------------------------------------------------

export function wrongSetting(name: string, want: string, got: unknown): string {
  return `${name} must be ${want}, got ${JSON.stringify(got)}; the default is used`;
}

export function unknownVariable(name: string, variable: string): string {
  return `${name} has the variable ${variable}, which is not known here`;
}

// --- what happened ----------------------------------------------------------------------------------------------

export function started(version: string, command: readonly string[]): string {
  return `starting shardlint ${version}: ${command.join(" ")}`;
}

export function usedInstead(problem: string): string {
  return `the server on the PATH is used, because ${problem}`;
}

export function refused(args: readonly string[], reason: string): string {
  return `the server does not take shardlint.args, ${args.join(" ")}: ${lastLine(reason)}`;
}

export function notStarted(reason: string): string {
  return `the server did not start: ${lastLine(reason)}`;
}

export function crashedAgain(times: number): string {
  return `the server ended unexpectedly and is started again (${times})`;
}

export function crashedTooOften(times: number, minutes: number): string {
  return `the server ended unexpectedly ${times} times within ${minutes} minutes and is not started again`;
}

export function installed(interpreter: string): string {
  return `${PACKAGE} was installed for ${interpreter}`;
}

export function notInstalled(status: number | undefined): string {
  return `${PACKAGE} could not be installed (exit status ${status ?? "unknown"}): the terminal says why`;
}

export function notChecked(status: number | undefined): string {
  return `the workspace could not be checked (exit status ${status ?? "unknown"}): the terminal says why`;
}

export function noInterpreter(): string {
  return "no Python interpreter is selected into which the server could be installed";
}

export function notRunning(): string {
  return "the server is not running";
}

export function nothingToFix(): string {
  return "no finding in this file has a safe fix";
}

/** Of a traceback, or of what a program says about its usage, the line that tells. */
function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) || "it says nothing";
}
