/** How often a server that ends by itself is started again. */

const MOST = 3;
const MINUTES = 3;
const WITHIN_MS = MINUTES * 60_000;

/** Counts unexpected ends: a few in a row are met with a new start, then the user has to say. */
export class Restarts {
  static readonly minutes = MINUTES;
  private ends: number[] = [];

  /** How often it ended of late. */
  get count(): number {
    return this.ends.length;
  }

  /** The server ended at a time (milliseconds): whether it is started again. */
  again(now: number): boolean {
    this.ends = this.ends.filter((end) => now - end < WITHIN_MS);
    this.ends.push(now);
    return this.ends.length <= MOST;
  }

  /** The user asked for a new start: what was is forgotten. */
  forget(): void {
    this.ends = [];
  }
}
