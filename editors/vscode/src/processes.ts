/** Runs short programs and says how they ended. */

import { execFile } from "node:child_process";

/** How a program ended: `status` is null where it could not be run at all, or not to its end. */
export interface Outcome {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** How long a program that is asked for its version may take: the first start of a cold Python takes seconds. */
const LONGEST_MS = 30_000;

/** Run a program without a shell. Never rejects: what went wrong is in `stderr`. */
export function run(command: readonly string[], cwd?: string): Promise<Outcome> {
  const [file, ...args] = command;
  return new Promise((resolve) => {
    const options = { cwd, timeout: LONGEST_MS, windowsHide: true };
    execFile(file, args, options, (error, stdout, stderr) => {
      if (error === null) {
        resolve({ status: 0, stdout, stderr });
      } else if (typeof error.code === "number") {
        resolve({ status: error.code, stdout, stderr });
      } else {
        resolve({ status: null, stdout, stderr: stderr.trim() || reasonOf(error) });
      }
    });
  });
}

function reasonOf(error: Error & { killed?: boolean }): string {
  if (error.killed === true) {
    return `no answer within ${LONGEST_MS / 1000} seconds`;
  }
  return error.message;
}
