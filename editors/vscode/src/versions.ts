/** Versions of Python packages, as far as they have to be compared: their leading numbers. */

/** The oldest Python that shardtypes runs on. */
export const OLDEST_PYTHON = "3.11";
/** The oldest shardtypes whose server this extension speaks to. */
export const OLDEST_SHARDTYPES = "0.1.0";
/** The oldest pygls that the server runs on. */
export const OLDEST_PYGLS = "2.0";

/** Whether a version, such as `0.2.0.dev3`, is not older than another one. */
export function isAtLeast(version: string, oldest: string): boolean {
  const ours = numbersOf(version);
  const theirs = numbersOf(oldest);
  for (let index = 0; index < theirs.length; index += 1) {
    const difference = (ours[index] ?? 0) - theirs[index];
    if (difference !== 0) {
      return difference > 0;
    }
  }
  return true;
}

function numbersOf(version: string): number[] {
  const leading = /^\d+(\.\d+)*/.exec(version);
  return leading === null ? [] : leading[0].split(".").map(Number);
}
