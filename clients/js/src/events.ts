/** What the protocol tells: one shape for each thing that can happen to a session. */

import type { RequestProblem } from "./frames.js";
import type { Reason } from "./reasons.js";
import type { Outcome } from "./types.js";

/** The next reliable message of a channel; call `processed` when it has been dealt with. */
export interface Arrived {
  readonly is: "arrived";
  readonly session: string;
  readonly channel: number;
  readonly generation: number;
  readonly seq: number;
  readonly type: string;
  readonly body: unknown;
}

/** A connection has ended, and what the server said about it. */
export interface Closed {
  readonly is: "closed";
  readonly code: number;
  readonly reason: Reason;
  readonly message: string;
  readonly retryAfterS: number;
  readonly problem: string;
}

/** Messages of a channel could not be kept; its stream restarts with the current state. */
export interface Restarted {
  readonly is: "restarted";
  readonly channel: number;
  readonly generation: number;
  /** The last of our messages that the server had applied by then, and the last that it had received. */
  readonly applied: number;
  readonly accepted: number;
  /** As in the outcome of the resume. */
  readonly reason: Reason;
}

/** There will be nothing more on this channel, and its last message did not reach us. */
export interface ChannelGone {
  readonly is: "channel_gone";
  readonly channel: number;
  readonly reason: Reason;
  /** Whether it is gone with its session, or was never part of the server's present history. */
  readonly isReset: boolean;
}

export type SeatEvent =
  | Arrived
  /** A channel began: the session has a seat, or what else its purpose says. */
  | {
      readonly is: "channel_opened";
      readonly channel: number;
      readonly room: string;
      readonly kind: string;
      readonly purpose: string;
    }
  /** An unreliable message. */
  | { readonly is: "latest_arrived"; readonly channel: number; readonly type: string; readonly body: unknown }
  | Restarted
  | ChannelGone;

/** A notice outside rooms: of a watch, a place in a waitlist, a placement. */
export interface Noticed {
  readonly is: "noticed";
  readonly topic: string;
  readonly key: string;
  readonly body: unknown;
}

export interface Replied {
  readonly is: "replied";
  readonly id: number;
  readonly result: unknown;
  readonly problem: RequestProblem | null;
}

/** The session is attached to this connection; its channels and requests have been brought up to date before. */
export interface Welcomed {
  readonly is: "welcomed";
  readonly outcome: Outcome;
  /** Whether the connection before it was left for this one: there was no drop. */
  readonly isMoved?: boolean;
}

export type Event = Welcomed | Replied | Noticed | SeatEvent | Closed;

/** What a transport's end means, or what we say to ourselves. */
export function closed(code: number, reason: Reason, message = "", retryAfterS = 0, problem = ""): Closed {
  return { is: "closed", code, reason, message, retryAfterS, problem };
}
