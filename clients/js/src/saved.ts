/** A session on paper: what a client needs to go on with it in another page or process. It holds secrets. */

import type { Kept } from "./channel.js";
import { Refused } from "./errors.js";
import type { Position } from "./frames.js";

/** One channel: how far its inward stream was processed, and what the server has not acknowledged. */
export interface SavedChannel {
  number: number;
  generation: number;
  received: number;
  lastSeq: number;
  room: string;
  kind: string;
  outbox: Kept[];
  /** Whether the stream was restarted and the reader does not know yet. */
  isRestarted: boolean;
  /** What the channel is for; a seat if it is not said. */
  purpose?: string;
  /** Whether the room shares its state with us: it is not saved, so the next page asks for it. */
  isSharing?: boolean;
}

export interface SavedState {
  dialect: string;
  session: string;
  token: string;
  player: string;
  scheme: string;
  credential: string;
  channels: SavedChannel[];
  finished: Position[];
  /** Of the last welcome: which history the positions belong to. */
  lineage?: string;
  /** The highest request that was answered, or that a welcome has told of. */
  requests?: number;
  /** By purpose, the number of the newest channel, which may be over. */
  newest?: Record<string, number>;
  /** The player's display name. */
  name?: string;
}

const VERSION = 1;

/** The state as text. Bodies are bytes: one letter for each. */
export function write(state: SavedState): string {
  return JSON.stringify([VERSION, state], (_, part) => (part instanceof Uint8Array ? textOf(part) : part));
}

/** What `write` wrote; refused as `invalid` if it is anything else. */
export function read(text: string): SavedState {
  try {
    const [version, state] = JSON.parse(text) as [number, SavedState];
    if (version !== VERSION) throw new TypeError("of another version");
    for (const text of [state.dialect, state.session, state.token, state.player, state.scheme, state.credential])
      if (typeof text !== "string") throw new TypeError("a text is missing");
    for (const { channel, generation } of state.finished) check(channel, generation);
    check(state.requests ?? 0, ...Object.values(state.newest ?? {}));
    const channels = state.channels.map((channel) => {
      check(channel.number, channel.generation, channel.received, channel.lastSeq - channel.outbox.length);
      const outbox = channel.outbox.map(([name, body]): Kept => [name, bytesOf(body as unknown as string)]);
      return { ...channel, outbox };
    });
    return { ...state, channels };
  } catch (error) {
    throw new Refused("invalid", `this is not a saved session: ${error}`);
  }
}

function check(...numbers: number[]): void {
  if (!numbers.every((number) => Number.isSafeInteger(number) && number >= 0)) throw new TypeError("a number is wrong");
}

// A body never changes, and is written again every turn until it is acknowledged.
const texts = new WeakMap<Uint8Array, string>();

function textOf(bytes: Uint8Array): string {
  const text = texts.get(bytes) ?? Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  texts.set(bytes, text);
  return text;
}

function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}
