/** What a session and its rooms share: the protocol, the connection under it, and everybody who waits for something. */

import { Connector, type DialOptions } from "./connector.js";
import { type HoldfastError, Refused, Reset, SessionEnded, TimedOut } from "./errors.js";
import type { Arrived, Event, Noticed, Replied, SeatEvent, Welcomed } from "./events.js";
import { type ClientProtocol, RESET } from "./protocol.js";
import type { Drop, Patience } from "./types.js";

/** Hears the answer to a request: its result, or why there is none. */
export type Answered = (result: unknown, error: HoldfastError | null) => void;

/** What to ask the server for. Arguments that are undefined are not said: an older server understands the rest. */
export interface ClientRequest {
  operation: string;
  args: object;
}

/** What the exchange calls. */
export interface Listener {
  happened(event: Welcomed | Noticed | SeatEvent): void;
  /** Everything that came with a payload is known: messages may be handed out. */
  deliver(): void;
  /** Before anything is written, and at the end of every turn; false if it could not be stored: nothing is written. */
  keep(): boolean;
  dropped(drop: Drop): void;
  waiting(drop: Drop): void;
  ended(error: HoldfastError): void;
}

interface Waiter {
  holds: () => boolean;
  resolve: () => void;
  reject: (error: HoldfastError) => void;
}

// An application that sends without waiting, while nothing gets through, must not fill the memory.
const WAITERS_MAX = 4096;
// A server that makes names up must not fill the console.
const UNHEARD_MAX = 64;
// How long to wait before looking again whether a slow link has caught up.
const CONGESTED_S = 0.05;
// A disk that was full may have room again.
const SAVE_AGAIN_S = 1;

export class Exchange {
  readonly #listener: Listener;
  readonly connector: Connector;
  #answered = new Map<number, Answered>();
  readonly #posts = new Map<string, [ClientRequest, Answered]>();
  readonly #waiters = new Set<Waiter>();
  readonly #unheard = new Set<string>();
  /** Whether it was us who ended it. */
  isClosedHere = false;
  #end: HoldfastError | null = null;
  #isFlushDue = false;
  #isSaved = true;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    readonly protocol: ClientProtocol,
    options: DialOptions,
    listener: Listener,
  ) {
    this.#listener = listener;
    this.connector = new Connector(this, protocol, options);
  }

  // Life

  /** End the connection in order, and with it the session on this side of the wire. */
  close(code: number, reason: string, message: string): void {
    this.isClosedHere = true;
    this.ended(new SessionEnded(reason, message));
    this.connector.close(code, reason);
  }

  /** Write everything, then that the session is to end. */
  sayBye(): void {
    this.flush();
    if (this.protocol.isWelcome) this.connector.send(this.protocol.bye());
  }

  /** Whether the session has ended on this side. */
  get isOver(): boolean {
    return this.#end !== null;
  }

  /** Throw `SessionEnded` if there is nothing to be had any more. */
  check(): void {
    if (this.#end) throw this.#end;
  }

  // What rooms and requests need

  /** A message was handed out and nobody listens for its type: say so, once. Holdfast's own may be passed over. */
  unheard(type: string): void {
    if (type.startsWith("holdfast.") || this.#unheard.has(type) || this.#unheard.size >= UNHEARD_MAX) return;
    this.#unheard.add(type);
    console.warn(`holdfast: a "${type}" came and nobody listens: is a room.on("${type}", …) missing?`);
  }

  /** Wait until something is true; first come, first served. Throws `SessionEnded` if the session ends first. */
  until(holds: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#waiters.size >= WAITERS_MAX) {
        const refusal = new Refused("throttled", "too many messages and requests wait already: await them");
        console.warn("holdfast:", refusal);
        reject(refusal);
        return;
      }
      this.#waiters.add({ holds, resolve, reject });
      this.changed();
    });
  }

  /** The same, for so long only; `late` says what did not come. */
  async within(patience: Patience, late: string, holds: () => boolean): Promise<void> {
    const [check, end] = this.limited(patience, late);
    try {
      await this.until(() => {
        check();
        return holds();
      });
    } finally {
      end();
    }
  }

  /** The limits of a wait: the first function throws once one is reached, the second one ends them. */
  limited({ timeoutS, signal }: Patience, late: string): [check: () => void, end: () => void] {
    let error: Error | undefined;
    const giveUp = (why: Error) => {
      error = why;
      this.changed();
    };
    const onAbort = () => giveUp(signal?.reason);
    const onTime = () => giveUp(new TimedOut(`${late} within ${timeoutS} s`));
    // A timer of more than 24 days ends at once.
    const timer = timeoutS !== undefined && timeoutS < 2e6 ? setTimeout(onTime, timeoutS * 1000) : undefined;
    signal?.addEventListener("abort", onAbort);
    if (signal?.aborted) onAbort();
    return [
      () => {
        if (error) throw error;
      },
      () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
      },
    ];
  }

  /** Wake all waiters to check their condition again. */
  changed(): void {
    for (const waiter of this.#waiters) {
      try {
        if (waiter.holds()) waiter.resolve();
        else if (this.#end) waiter.reject(this.#end);
        else continue;
      } catch (error) {
        waiter.reject(error as HoldfastError);
      }
      this.#waiters.delete(waiter);
    }
  }

  /**
   * Ask the server for something; asked again by itself after a resume, answered once. `taken` makes something of the
   * answer before anything that came after it is told.
   */
  async request<T>(request: ClientRequest, taken: (result: unknown) => T): Promise<T> {
    let reply: Promise<T> | undefined;
    await this.until(() => {
      this.check();
      if (!this.protocol.mayRequest) return false;
      // Sent right here: who waits behind us must find this request among those in flight.
      reply = new Promise<T>((resolve, reject) => {
        this.#send(request, (result, error) => {
          if (error) return reject(error);
          try {
            resolve(taken(result));
          } catch (problem) {
            reject(problem as Error);
          }
        });
      });
      return true;
    });
    return reply as Promise<T>;
  }

  /** Ask without waiting, before all who wait; what was not sent yet gives way to the same request with this key. */
  post(request: ClientRequest, key: string, answered: Answered = () => {}): void {
    const place = `${request.operation} ${key}`;
    this.#posts.delete(place);
    this.#posts.set(place, [request, answered]);
    this.#sendPosts();
  }

  #sendPosts(): void {
    for (const [place, post] of this.#posts) {
      if (!this.protocol.mayRequest || this.#end) return;
      this.#posts.delete(place);
      this.#send(...post);
    }
  }

  #send(request: ClientRequest, answered: Answered): void {
    this.#answered.set(this.protocol.request(request.operation, request.args), answered);
    this.wake();
  }

  /** Wait until what was done is stored: at once, unless the storage fails. */
  async saved(): Promise<void> {
    if (!this.#isSaved) await this.until(() => this.#isSaved);
  }

  /** A message was dealt with: acknowledge it soon. */
  processed(arrived: Arrived): void {
    this.protocol.processed(arrived);
    this.wake();
  }

  // Writing

  /**
   * Write what waits when this turn ends. A microtask: no page is ever left between a turn and its microtasks, so what
   * was done and what is kept of it cannot differ.
   */
  wake(): void {
    if (this.#isFlushDue || this.#end) return;
    this.#isFlushDue = true;
    queueMicrotask(() => {
      if (!this.#end) this.flush();
    });
  }

  /** Write what waits now, once it is stored. */
  flush(withAcks = false): void {
    this.#isFlushDue = false;
    const wasSaved = this.#isSaved;
    this.#isSaved = this.#listener.keep();
    if (!this.#isSaved) {
      if (!this.#end && !this.#timer) this.#later(SAVE_AGAIN_S, true);
      return;
    }
    if (!wasSaved) this.changed();
    const isCongested = this.connector.isCongested;
    const payloads = this.protocol.outgoing(withAcks, !isCongested);
    for (const payload of payloads) this.connector.send(payload);
    if (this.#end || this.#timer || !this.protocol.isWelcome) return;
    if (this.protocol.channels.oweAck) this.#later(this.protocol.limits.clientAckS, true);
    else if (isCongested && this.protocol.hasLatest) this.#later(CONGESTED_S, false);
  }

  #later(waitS: number, withAcks: boolean): void {
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.flush(withAcks);
    }, waitS * 1000);
  }

  // From the connector

  keep(): boolean {
    return this.#listener.keep();
  }

  happened(event: Event): void {
    if (event.is === "replied") this.#replied(event);
    else if (event.is !== "closed") this.#listener.happened(event);
  }

  heard(): void {
    this.#sendPosts();
    this.changed();
    this.#listener.deliver();
    this.wake();
  }

  dropped(drop: Drop): void {
    if (!this.#end) this.#listener.dropped(drop);
  }

  waiting(drop: Drop): void {
    this.#listener.waiting(drop);
  }

  /** The session is over; everybody who waits for something is told. */
  ended(error: HoldfastError): void {
    if (this.#end) return;
    this.#end = error;
    if (this.#timer) clearTimeout(this.#timer);
    const answered = this.#answered;
    this.#answered = new Map();
    for (const tell of answered.values()) tell(null, error);
    this.changed();
    this.#listener.ended(error);
  }

  #replied({ id, result, problem }: Replied): void {
    const answered = this.#answered.get(id);
    this.#answered.delete(id);
    if (problem?.code === RESET) answered?.(null, new Reset(problem.message));
    else answered?.(result, problem && new Refused(problem.code, problem.message));
  }
}
