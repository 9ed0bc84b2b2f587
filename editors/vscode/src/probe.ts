/** Asks an interpreter, or an executable, whether the server runs there. */

import * as messages from "./messages";
import { run } from "./processes";
import { OLDEST_PYGLS, OLDEST_PYTHON, OLDEST_SHARDTYPES, isAtLeast } from "./versions";

/** Why the server does not run in a place, and whether installing it there helps. */
export interface Problem {
  message: string;
  installable: boolean;
}

/** What an interpreter says of itself; a package that it lacks is null. */
export interface Description {
  python: string;
  shardtypes: string | null;
  pygls: string | null;
}

export type Probed = { version: string } | { problem: Problem };

/**
 * Runs on every Python 3, also those that are too old for us. Modules of the folder that is open are not looked at:
 * a `json.py` there would be imported instead of Python's.
 */
const DESCRIBE = `
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import json
found = {"python": ".".join(map(str, sys.version_info[:3]))}
try:
    from importlib.metadata import distribution
except ImportError:
    distribution = None
for name in ("shardtypes", "pygls"):
    found[name] = None
    if distribution is not None:
        try:
            found[name] = distribution(name).version
        except ImportError:
            pass
print(json.dumps(found))
`;

/** The command that serves an editor from an interpreter; `-P` keeps modules of the open folder out of the server. */
export function serverOf(interpreter: string): string[] {
  return [interpreter, "-P", "-m", "shardlint", "server"];
}

/** Ask an interpreter. */
export async function probeInterpreter(interpreter: string): Promise<Probed> {
  const outcome = await run([interpreter, "-c", DESCRIBE]);
  const description = outcome.status === 0 ? parsed(outcome.stdout) : undefined;
  if (description === undefined) {
    const reason = outcome.stderr.trim() || outcome.stdout.trim();
    return { problem: hopeless(messages.notPython(interpreter, reason)) };
  }
  return verdict(interpreter, description);
}

/** Ask a `shardlint` executable. */
export async function probeExecutable(executable: string): Promise<Probed> {
  const outcome = await run([executable, "server", "--version"]);
  const version = /^shardlint (\S+)$/m.exec(outcome.stdout);
  if (outcome.status !== 0 || version === null) {
    const reason = outcome.stderr.trim() || outcome.stdout.trim();
    return { problem: hopeless(messages.notShardlint(executable, reason)) };
  }
  if (!isAtLeast(version[1], OLDEST_SHARDTYPES)) {
    return { problem: hopeless(messages.oldShardtypes(executable, version[1])) };
  }
  return { version: version[1] };
}

/** What a server that was found has against options; undefined if it takes them. */
export async function refusal(
  command: readonly string[],
  args: readonly string[],
  folder: string | undefined,
): Promise<string | undefined> {
  if (args.length === 0) {
    return undefined;
  }
  const outcome = await run([...command, ...args, "--version"], folder);
  return outcome.status === 0 ? undefined : messages.refused(args, outcome.stderr);
}

/** Whether the server runs in an interpreter that describes itself so. */
export function verdict(interpreter: string, found: Description): Probed {
  if (!isAtLeast(found.python, OLDEST_PYTHON)) {
    return { problem: hopeless(messages.oldPython(interpreter, found.python)) };
  }
  if (found.shardtypes === null) {
    return { problem: curable(messages.noShardtypes(interpreter)) };
  }
  if (!isAtLeast(found.shardtypes, OLDEST_SHARDTYPES)) {
    return { problem: curable(messages.oldShardtypes(interpreter, found.shardtypes)) };
  }
  if (found.pygls === null) {
    return { problem: curable(messages.noPygls(interpreter)) };
  }
  if (!isAtLeast(found.pygls, OLDEST_PYGLS)) {
    return { problem: curable(messages.oldPygls(interpreter, found.pygls)) };
  }
  return { version: found.shardtypes };
}

function parsed(text: string): Description | undefined {
  // A start-up file of the user's may print something first.
  const last = text.trim().split("\n").at(-1) ?? "";
  try {
    return JSON.parse(last) as Description;
  } catch {
    return undefined; // what was run is no Python: the caller says what it printed
  }
}

function hopeless(message: string): Problem {
  return { message, installable: false };
}

function curable(message: string): Problem {
  return { message, installable: true };
}
