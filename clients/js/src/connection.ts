/** One dialled connection, from its first byte to its end. */

import type { Codec } from "./codec.js";
import { ProtocolError } from "./errors.js";
import { type Closed, closed } from "./events.js";
import { CLOSE_CODES, isOurs, reasonOf } from "./reasons.js";
import { bytesOf, textOf } from "./text.js";

/** As much of a WebSocket as is needed: the browser's, Node's, or that of the package `ws`. */
export interface Socket {
  binaryType: string;
  readonly bufferedAmount: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(payload: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number, reason?: string): void;
}
export type SocketClass = new (url: string, protocols: string[]) => Socket;

/** The code for a connection that ended without a word. */
export const VANISHED = 1006;
export const NORMAL = 1000;

// More than this waits to be written: what may be left out should wait.
const CONGESTED_BYTES = 64 * 1024;

export class ClientConnection {
  readonly url: string;
  readonly #codec: Codec;
  readonly #heard: { now(): number; opened(): void; received(payload: Uint8Array): void };
  heardAt: number;
  /** When the session was attached to it. */
  welcomeAt: number | null = null;
  /** What was said about its end. */
  said: Closed | null = null;
  /** Whether anybody ever answered. */
  wasOpen = false;
  /** A connection to the session's own node, which has replaced this one. */
  successor: ClientConnection | null = null;
  /** The one that this replaces: it stays open until this one is welcome, so that the server sees no drop. */
  predecessor: ClientConnection | null = null;
  /** Why it ended, once it has. */
  readonly ended: Promise<Closed>;
  #end!: (closed: Closed) => void;
  #socket: Socket | null;

  constructor(
    url: string,
    WebSocket: SocketClass,
    codec: Codec,
    heard: { now(): number; opened(): void; received(payload: Uint8Array): void },
  ) {
    this.url = url;
    this.#codec = codec;
    this.#heard = heard;
    this.heardAt = heard.now();
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    const socket = new WebSocket(url, [codec.name]);
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.wasOpen = true;
      this.heardAt = heard.now();
      heard.opened();
    };
    socket.onmessage = ({ data }: { data: string | ArrayBuffer }) => this.#onMessage(data);
    socket.onclose = ({ code, reason }: { code: number; reason: string }) => this.#lost(code, reason);
    // Its end follows, and says as much; only Node 22's own socket says nothing more of a dial that failed.
    socket.onerror = () => this.wasOpen || this.#lost(VANISHED, "");
  }

  #onMessage(data: string | ArrayBuffer): void {
    this.heardAt = this.#heard.now();
    if ((typeof data === "string") === this.#codec.text)
      this.#heard.received(typeof data === "string" ? bytesOf(data) : new Uint8Array(data));
    else this.broken(new ProtocolError(this.#codec.text ? "bytes came instead of text" : "text came instead of bytes"));
  }

  /** Hear and say nothing more here. */
  leaveFor(successor: ClientConnection): void {
    this.successor = successor;
    successor.predecessor = this;
    this.#end(closed(NORMAL, "moved"));
  }

  /** The session is here, or lost. */
  leavePredecessor(): void {
    this.predecessor?.abort();
    this.predecessor = null;
  }

  /** The server broke the protocol: say so, and hear no more of it. */
  broken(error: ProtocolError): void {
    const code = CLOSE_CODES[error.reason];
    this.said = closed(code, error.reason, error.message);
    this.close(code, error.reason);
  }

  #lost(code: number, reason: string): void {
    this.#detach();
    this.#end(this.said ?? (isOurs(code) ? closed(code, reason) : closed(code, reasonOf(code), reason)));
  }

  /** Whether it can be written to. */
  get isUp(): boolean {
    return this.#socket !== null && this.wasOpen;
  }

  get isCongested(): boolean {
    return (this.#socket?.bufferedAmount ?? 0) > CONGESTED_BYTES;
  }

  /** Write a payload, if it is up. */
  send(payload: Uint8Array): void {
    if (this.isUp) this.#socket?.send(this.#codec.text ? textOf(payload) : (payload as Uint8Array<ArrayBuffer>));
  }

  /**
   * End in order, and at once on this side: a browser would wait for the other, and that may be gone. What was sent
   * before still goes out.
   */
  close(code: number, reason: string): void {
    const socket = this.#detach();
    try {
      socket?.close(code, reason);
    } catch {
      socket?.close();
    }
    this.#lost(VANISHED, "");
  }

  /** End as a bad network would. */
  abort(): void {
    // There is no way to cut a WebSocket off; the code says that nothing was ended on purpose.
    this.close(CUT, "cut");
  }

  #detach(): Socket | null {
    const socket = this.#socket;
    this.#socket = null;
    if (socket) socket.onopen = socket.onmessage = socket.onclose = null;
    return socket;
  }
}

// Of the range that RFC 6455 leaves to applications, and none of Holdfast's.
const CUT = 3000;
