// Rates and quantiles of the last minutes, from the differences between two snapshots.

import type { NodeNumbers, Overview, Spread } from "./api";

/** Ten minutes, one snapshot a second. */
export const KEPT = 600;
/** Round trips and commits are measured rarely: their quantiles cover this many seconds. */
const WINDOW_S = 10;

export interface Sample {
  at: number;
  players: number;
  connected: number;
  disconnected: number;
  rooms: number;
  applied: number | null;
  received: number | null;
  sent: number | null;
  drops: number | null;
  resumes: number | null;
  roundTrip: number | null;
  roundTrip95: number | null;
  commit: number | null;
  commit99: number | null;
  lag99: number | null;
}

/** The snapshots that are kept, and the values derived from each. */
export class History {
  private readonly looks: Overview[] = [];
  readonly samples: Sample[] = [];

  get last(): Overview | undefined {
    return this.looks.at(-1);
  }

  add(look: Overview): void {
    const before = this.looks.at(-1);
    if (before !== undefined && !areAlike(before, look)) {
      // The server was restarted, or a node has come or gone: older snapshots cannot be compared.
      this.looks.length = 0;
    }
    this.looks.push(look);
    this.samples.push(this.sample(look));
    if (this.looks.length > WINDOW_S * 3) {
      this.looks.shift();
    }
    if (this.samples.length > KEPT) {
      this.samples.shift();
    }
  }

  /** What one node of a cluster counts a second, now; null if that is not known. */
  rateOf(node: NodeNumbers, ...names: string[]): number | null {
    const [before, now] = this.looks.slice(-2);
    const earlier = now === undefined ? undefined : before?.nodes.find((each) => each.life === node.life);
    return perSecond(node.totals, earlier?.totals, earlier === undefined ? 0 : node.at - earlier.at, names);
  }

  private sample(look: Overview): Sample {
    const before = this.looks.at(-2);
    const rate = (...names: string[]): number | null =>
      perSecond(look.totals, before?.totals, before === undefined ? 0 : look.at - before.at, names);
    const old = this.looks.find((each) => each.at > look.at - WINDOW_S) ?? look;
    const quantile = (name: string, share: number): number | null =>
      quantileOf(look.spreads[name], old === look ? undefined : old.spreads[name], share);
    return {
      at: look.at,
      players: look.players,
      connected: look.sessions.connected ?? 0,
      disconnected: look.sessions.disconnected ?? 0,
      rooms: Object.values(look.rooms).reduce((sum, each) => sum + each, 0),
      applied: rate("messages_applied"),
      received: rate("frames_received"),
      sent: rate("frames_sent"),
      drops: rate("drops"),
      resumes: rate("resumed", "resynced", "reset"),
      roundTrip: quantile("round_trip", 0.5),
      roundTrip95: quantile("round_trip", 0.95),
      commit: quantile("commit", 0.5),
      commit99: quantile("commit", 0.99),
      lag99: quantile("loop_lag", 0.99),
    };
  }
}

function areAlike(before: Overview, now: Overview): boolean {
  const nodes = (look: Overview): string => look.nodes.map((each) => each.life).join();
  return nodes(before) === nodes(now) && (now.totals.connections ?? 0) >= (before.totals.connections ?? 0);
}

type Totals = Record<string, number>;

function perSecond(now: Totals, before: Totals | undefined, seconds: number, names: string[]): number | null {
  const sum = (of: Totals): number => names.reduce((all, name) => all + (of[name] ?? 0), 0);
  return before !== undefined && seconds > 0 ? (sum(now) - sum(before)) / seconds : null;
}

/** The quantile of the values that were counted after `before`; null if there are none. */
export function quantileOf(now: Spread | undefined, before: Spread | undefined, share: number): number | null {
  if (now === undefined) {
    return null;
  }
  const counts = now.counts.map((count, index) => count - (before?.counts[index] ?? 0));
  const all = counts.at(-1) ?? 0;
  if (all <= 0) {
    return null;
  }
  const wanted = all * share;
  const bucket = counts.findIndex((count) => count >= wanted);
  const last = now.bounds.at(-1) ?? 0;
  const high = now.bounds[bucket] ?? last;
  const low = bucket > 0 ? (now.bounds[bucket - 1] ?? 0) : 0;
  const below = bucket > 0 ? (counts[bucket - 1] ?? 0) : 0;
  const inside = (counts[bucket] ?? 0) - below;
  return inside > 0 ? low + ((high - low) * (wanted - below)) / inside : high;
}
