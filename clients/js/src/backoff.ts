/** How long a client waits before it tries again: full jitter, so that ten thousand clients do not return at once. */

const FIRST_S = 0.25;
const LONGEST_S = 15;

/** The wait before attempt number `attempt` (from 0); `chance` is uniform in [0, 1). A server that named a time is obeyed. */
export function backoffS(attempt: number, chance: number, retryAfterS = 0): number {
  return retryAfterS + chance * Math.min(LONGEST_S, FIRST_S * 2 ** attempt);
}
