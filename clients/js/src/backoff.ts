/**
 * How long a client waits before it tries again: full jitter, so that ten thousand clients do not return at once.
 *
 * The cap is low, so that a server that restarts is found within about a second of opening its port. A server that stays
 * away is asked less often: after `LONG_OUTAGE_S` the cap grows in proportion to the outage, up to `STRETCH_MAX` times.
 */

export const FIRST_S = 0.1;
export const LONGEST_S = 1;
const LONG_OUTAGE_S = 30;
const STRETCH_MAX = 15;

/** The settings of one client. */
export interface Backoff {
  firstS: number;
  longestS: number;
}

/**
 * The wait before attempt number `attempt` (from 0), `lostS` after the loss; `chance` is uniform in [0, 1). If the server
 * named a time, that time passes first.
 */
export function backoffS(
  { firstS, longestS }: Backoff,
  attempt: number,
  chance: number,
  lostS = 0,
  retryAfterS = 0,
): number {
  const stretch = Math.min(Math.max(1, lostS / LONG_OUTAGE_S), STRETCH_MAX);
  return retryAfterS + chance * Math.min(longestS * stretch, firstS * 2 ** attempt);
}
