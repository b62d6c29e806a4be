/** What a room shares, as one of its players or spectators has it. */

import type { Channel } from "./channel.js";
import type { Off } from "./emitter.js";
import type { Exchange } from "./exchange.js";
import { type ChangeListener, Mirror, type PathListener } from "./mirror.js";

// A slow reader may have some.
const WAITING_MAX = 100;

const NOBODY: Readonly<Record<string, unknown>> = Object.freeze({});

/** A mirror of what the room shares, and how to get it back if it is lost. */
export class SharedState {
  readonly mirror: Mirror;
  readonly #exchange: Exchange;
  readonly #channel: Channel;
  #isLost: boolean;
  #isAskedFor = false;
  #isWarned = false;

  constructor(exchange: Exchange, channel: Channel, immutable: boolean) {
    this.#exchange = exchange;
    this.#channel = channel;
    this.mirror = new Mirror({ immutable });
    // Of a saved session only messages are kept.
    this.#isLost = exchange.protocol.channels.isSharing(channel.number);
  }

  // Reading

  get state(): unknown {
    return this.#root.state;
  }

  get players(): Readonly<Record<string, unknown>> {
    return Object(this.#root.players ?? NOBODY);
  }

  /** Without private fields, what is the player's own is what everybody sees of it. */
  get mine(): unknown {
    const id = this.#exchange.protocol.playerId;
    return this.#root.mine ?? (Object.hasOwn(this.players, id) ? this.players[id] : undefined);
  }

  get #root(): Readonly<Record<string, unknown>> {
    return this.mirror.isComplete ? this.mirror.root : NOBODY;
  }

  // Listening

  onChange(path: string | ChangeListener, listener?: PathListener): Off {
    if (typeof path !== "string") return this.mirror.onChange(path);
    const heard = listener as PathListener;
    const off = this.mirror.onChange(path, heard);
    const [root, ...rest] = path.split(".");
    if (root !== "mine") return off;
    const offPublic = this.mirror.onChange(["players", "*", ...rest].join("."), (value, player, ...keys) => {
      if (player === this.#exchange.protocol.playerId && !Object.hasOwn(this.#root, "mine")) heard(value, ...keys);
    });
    return () => {
      off();
      offPublic();
    };
  }

  // Following

  /** Apply a change, in the order of messages; its listeners are called. */
  receive(body: unknown): void {
    try {
      this.mirror.receive(body);
    } catch (error) {
      if (!this.#isLost) console.warn("holdfast: the state of a room is lost; asking for it again:", error);
      this.#isLost = true;
      this.askIfLost();
      return;
    }
    if (!this.mirror.isComplete) return;
    this.#isLost = this.#isAskedFor = false;
    this.#exchange.protocol.channels.shares(this.#channel.number);
  }

  /** So many changes wait for messages before them: say so once, if nobody seems to read those. */
  waits(changes: number): void {
    const usualMax = Math.min(WAITING_MAX, this.#exchange.protocol.limits.windowMessagesMax >> 1);
    if (changes <= usualMax || this.#isWarned) return;
    this.#isWarned = true;
    console.warn(
      "holdfast: room.state waits for messages before it: listen for them, receive the next one, or call room.acknowledge()",
    );
  }

  /** The stream begins again, and with it the whole view comes by itself. */
  restarted(): void {
    this.#isLost = false;
  }

  /** Ask for the whole view, once for each that is missing. */
  askIfLost(): void {
    const { number, purpose } = this.#channel;
    if (!this.#isLost || this.#isAskedFor || !this.#exchange.protocol.channels.isNewest(number)) return;
    this.#isAskedFor = true;
    this.#exchange.post({ operation: "view", args: { purpose } }, `${number}`, (_, error) => {
      if (error) console.warn("holdfast: the state of a room stays lost:", error);
    });
  }
}
