/**
 * The client's half of the protocol, without sockets or timers: payloads in, events and payloads out.
 *
 * Everything that must outlive a connection is in here, so a lost connection changes nothing but `isWelcome`, and
 * `save` is enough to go on in another page.
 */

import { type Channel, MESSAGE_OVERHEAD_BYTES } from "./channel.js";
import { Channels } from "./channels.js";
import { CODECS, type Codec, Raw } from "./codec.js";
import { ProtocolError, Refused } from "./errors.js";
import { type Arrived, closed, type Event } from "./events.js";
import {
  type Block,
  type Data,
  FRAME_HEAD_BYTES,
  type FromClient,
  type FromServer,
  type Latest,
  type Ping,
  type Request,
  type Terms,
  type Welcome,
} from "./frames.js";
import type { Limits } from "./limits.js";
import type { SavedState } from "./saved.js";
import type { Auth, Outcome } from "./types.js";
import { VERSION } from "./version.js";

/** What became of a session that was gone; also the code of requests that were lost with it. */
export const RESET = "reset";

/** What this client can do beyond the first version of the protocol. */
const FEATURES = ["session", "state", "blocks", "moves"];

/** The last message of every channel: the seat is free. */
export const LEFT = "holdfast.left";

export class ClientProtocol {
  #codecNow: Codec;
  #auth: Auth | null;
  sessionId = "";
  playerId = "";
  /** The player's display name, as the server has accepted it. */
  name = "";
  // To ask for. Not saved before it is accepted.
  #wantedName: string;
  credential = "";
  latencyMs = 0;
  /** How much longer than usual nothing may be heard: the server said that its next payload is large. */
  quietS = 0;
  isWelcome = false;
  readonly channels: Channels;
  #scheme: string;
  #token = "";
  // Of the last welcome: which history our positions belong to.
  #lineage = "";
  #lastRequest = 0;
  #lastAnswered = 0;
  #requests = new Map<number, Request>();
  #unsent: FromClient[] = [];
  #latest = new Map<string, Latest>();
  #resetReason = "";
  // Of payloads since the last acknowledgement.
  #unackedBytes = 0;
  // A saved state may be older than what its page did afterwards: until the server has told us how far that was, a
  // message or request would get a number that stands for something else.
  #isOutdated = false;

  constructor(
    codecNow: Codec,
    auth: Auth | null,
    public limits: Limits,
    wantedName = "",
  ) {
    this.#wantedName = wantedName;
    this.#codecNow = codecNow;
    this.#auth = auth;
    this.channels = new Channels(limits);
    this.#scheme = auth?.scheme ?? "guest";
  }

  get codec(): Codec {
    return this.#codecNow;
  }

  // The session

  /** The first payload of a new connection: come back to the session if there is one, else sign in. */
  hello(): Uint8Array {
    const resume = this.sessionId
      ? {
          session: this.sessionId,
          token: this.#token,
          positions: this.channels.positions(),
          lineage: this.#lineage,
          requests: this.#lastAnswered,
        }
      : null;
    const name = this.#wantedName || this.name;
    return this.#payload(["hello", this.#auth, resume, `holdfast-js ${VERSION}`, name, FEATURES]);
  }

  /** The connection is gone: what must arrive is written to the next one. */
  lost(): void {
    this.isWelcome = false;
    this.quietS = 0;
    this.#unsent = [];
    this.#latest.clear();
  }

  /** Let the next hello sign in, not come back; false if that was tried, or there is nothing to do it with. */
  signInAgain(reason: string): boolean {
    if (!this.sessionId || !this.#auth) return false;
    this.sessionId = this.#token = "";
    this.#resetReason = reason;
    return true;
  }

  /** The player has an account: sign in with that from now on, and come back with this token, if there is one. */
  linked(auth: Auth, token: string): void {
    this.#auth = auth;
    this.#scheme = auth.scheme ?? "guest";
    this.credential = "";
    this.#token = token || this.#token;
  }

  /** The payload that ends the session on purpose. */
  bye(): Uint8Array {
    return this.#payload(["bye", ""]);
  }

  #payload(frame: FromClient): Uint8Array {
    return this.codec.payloads([frame], this.limits.payloadBytesMax)[0] as Uint8Array;
  }

  /** Everything that is needed to go on elsewhere, secrets included. */
  save(): SavedState {
    return {
      dialect: this.codec.name,
      session: this.sessionId,
      token: this.#token,
      player: this.playerId,
      scheme: this.#scheme,
      credential: this.credential,
      channels: this.channels.save(),
      finished: this.channels.finished(),
      lineage: this.#lineage,
      requests: this.#lastAnswered,
      newest: this.channels.newest(),
      name: this.name,
    };
  }

  /**
   * Go on from a saved state. If the session is gone, sign in with what we were given, else what it remembers.
   *
   * `isBlank`: what the messages before made of the game is not here any more: ask the room for its state.
   */
  load(state: SavedState, isBlank: boolean): void {
    this.#codecNow = CODECS[state.dialect] ?? this.codec;
    this.sessionId = state.session;
    this.playerId = state.player;
    this.#token = state.token;
    this.credential = state.credential;
    this.#lineage = state.lineage ?? "";
    this.#lastAnswered = state.requests ?? 0;
    this.name = state.name ?? "";
    if (!this.#auth) {
      this.#scheme = state.scheme;
      this.#auth = state.credential ? { scheme: state.scheme, credential: state.credential } : null;
    }
    this.channels.load(state, isBlank);
    this.#isOutdated = true;
  }

  // To the server

  /** Ask for something; the answer comes as `replied` with this id, also after a resume. */
  request(operation: string, args: object): number {
    // Encoded before the id is given out: one that cannot be encoded must not leave a gap.
    const body = new Raw(this.#fitting(operation, args));
    this.#lastRequest += 1;
    const request: Request = ["request", this.#lastRequest, operation, body];
    this.#requests.set(this.#lastRequest, request);
    if (this.isWelcome) this.#unsent.push(request);
    return this.#lastRequest;
  }

  /** Whether the server would take another request now. */
  get mayRequest(): boolean {
    return !this.#isOutdated && this.#requests.size < this.limits.requestsInFlightMax;
  }

  /** A message's body, for `push`; refused as `invalid` if no payload can carry it. */
  body(name: string, content: unknown): Uint8Array {
    const letters = [...name].length;
    if (!letters || letters > 64) throw new Refused("invalid", "the name of a message has 1 to 64 characters");
    return this.#fitting(name, content);
  }

  /** The body of a message that asks for an answer. */
  ask(name: string, content: unknown): Uint8Array {
    return this.body(name, [name, content]);
  }

  /** Send a reliable message: kept until the server has applied it; its number. Wait first while `isFull`. */
  push(channel: number, name: string, body: Uint8Array): number {
    const seat = this.channels.seat(channel);
    // What may be kept is more than the window that `isFull` tells of.
    seat.push(name, body);
    return seat.lastSeq;
  }

  /** Send an unreliable message, if there is a connection; a newer one with the same key takes its place. */
  pushLatest(channel: number, name: string, body: Uint8Array, key: string): void {
    this.channels.seat(channel);
    if (!this.isWelcome) return;
    const place = JSON.stringify([channel, name, key]);
    if (!this.#latest.has(place) && this.#latest.size >= this.limits.latestKeptMax)
      for (const oldest of this.#latest.keys()) {
        this.#latest.delete(oldest);
        break;
      }
    this.#latest.set(place, ["latest", channel, name, new Raw(body)]);
  }

  /** Whether the sender must wait: for acknowledgements, or for the first welcome of a saved session. */
  isFull(channel: number): boolean {
    return this.#isOutdated || this.channels.seat(channel).isFull;
  }

  /** Messages that the server has not acknowledged. */
  unacked(channel: number): number {
    return this.channels.get(channel)?.kept ?? 0;
  }

  /** The application has dealt with this message and all before it: they may be acknowledged. */
  processed(arrived: Arrived): void {
    const channel = this.channels.get(arrived.channel);
    if (!channel || arrived.session !== this.sessionId || arrived.generation !== channel.generation) return;
    channel.applied = Math.max(channel.applied, arrived.seq);
    if (!arrived.seq) this.channels.read(channel);
    if (arrived.type === LEFT) {
      // The last of its stream: acknowledge it now, or with the next hello.
      if (this.isWelcome) this.#unsent.push(["ack", channel.number, channel.applied]);
      this.channels.finish(channel);
    }
  }

  /** A stream's restart, to be `processed` like a message once the application knows of it. */
  restartOf(channel: number, generation: number): Arrived {
    return { is: "arrived", session: this.sessionId, channel, generation, seq: 0, type: "", body: null };
  }

  /** The payloads to write now; nothing while there is no welcome. */
  outgoing(withAcks: boolean, withLatest: boolean): Uint8Array[] {
    if (!this.isWelcome) return [];
    // Requests after the messages: one to leave must not overtake what was said before.
    const frames: FromClient[] = this.channels.outgoing(withAcks || this.#unsent.length > 0 || this.#isMuchUnacked);
    if (frames.length) this.#unackedBytes = 0;
    frames.push(...this.#unsent);
    this.#unsent = [];
    if (withLatest) {
      frames.push(...this.#latest.values());
      this.#latest.clear();
    }
    // In small payloads, if much waits: a link that is slow or often cut gets some of them through.
    return this.codec.payloads(frames, Math.min(this.limits.batchBytesMax, this.limits.payloadBytesMax));
  }

  /** Whether large messages could fill the window before the acknowledgement is due. */
  get #isMuchUnacked(): boolean {
    return this.#unackedBytes * 4 >= this.limits.windowBytesMax;
  }

  /** Whether unreliable messages wait. */
  get hasLatest(): boolean {
    return this.#latest.size > 0;
  }

  #fitting(name: string, content: unknown): Uint8Array {
    let encoded: Uint8Array;
    try {
      encoded = this.codec.encode(content);
    } catch (error) {
      throw new Refused("invalid", `a "${name}" cannot be sent: ${(error as Error).message}`);
    }
    const bytesMax = this.limits.payloadBytesMax - FRAME_HEAD_BYTES;
    if (encoded.length > bytesMax)
      throw new Refused(
        "invalid",
        `"${name}" has ${encoded.length} bytes, more than the ${bytesMax} that fit in a payload: send it in parts`,
      );
    return encoded;
  }

  // From the server

  /** What a payload means, one frame after the other; `ProtocolError` at the first that means nothing. */
  *receive(payload: Uint8Array): Generator<Event> {
    this.quietS = 0;
    this.#unackedBytes += payload.length;
    for (const frame of this.codec.fromServer(payload)) {
      if (!this.isWelcome && frame[0] !== "welcome" && frame[0] !== "close")
        throw new ProtocolError(`a ${frame[0]} came before the welcome`);
      yield* this.#on(frame);
    }
  }

  #on(frame: FromServer): Event[] {
    switch (frame[0]) {
      case "data":
        return this.#onData(frame);
      case "block":
        return this.#onBlock(frame);
      case "latest":
        return [{ is: "latest_arrived", channel: frame[1], type: frame[2], body: frame[3] }];
      case "ack":
        this.#acknowledged(frame[1], frame[2]);
        return [];
      case "ping":
        return this.#onPing(frame);
      case "reply":
        this.#lastAnswered = Math.max(this.#lastAnswered, frame[1]);
        return this.#requests.delete(frame[1])
          ? [{ is: "replied", id: frame[1], result: frame[2], problem: frame[3] }]
          : [];
      case "seat":
        return this.channels.onSeat(frame);
      case "notice":
        return [{ is: "noticed", topic: frame[1], key: frame[2], body: frame[3] }];
      case "welcome":
        return this.#onWelcome(frame);
      case "close":
        return [closed(frame[1], frame[2], frame[3], frame[4] > 0 ? frame[4] : 0, frame[5])];
    }
  }

  #onData([, number, seq, ack, type, body]: Data): Event[] {
    const channel = this.#acknowledged(number, ack);
    if (!channel && !this.channels.wasOpened(number))
      throw new ProtocolError(`a message came for channel ${number}, which was never opened`);
    if (!channel?.accept(seq)) return [];
    return [
      { is: "arrived", session: this.sessionId, channel: number, generation: channel.generation, seq, type, body },
    ];
  }

  /** A block is its messages, one after the other. */
  #onBlock([, number, first, ack, messages]: Block): Event[] {
    return messages.flatMap(([type, body], i) => this.#onData(["data", number, first + i, ack, type, body]));
  }

  #onPing([, id, number, received, latencyMs, quietS]: Ping): Event[] {
    this.latencyMs = latencyMs;
    this.quietS = quietS > 0 ? quietS : 0;
    const channel = this.#acknowledged(number, received);
    if (channel) channel.ackSent = channel.applied;
    this.#unsent.push(["pong", id, number, channel?.applied ?? 0]);
    return [];
  }

  /** The channel that a frame speaks of, with what the frame acknowledges. */
  #acknowledged(number: number, ack: number): Channel | undefined {
    const channel = this.channels.get(number);
    if (channel && ack > channel.acked) channel.acknowledge(ack);
    return channel;
  }

  #onWelcome(frame: Welcome): Event[] {
    if (this.isWelcome) throw new ProtocolError("a second welcome came");
    const [, session, player, token, told, terms, channels, requests, credential, lineage, name] = frame;
    const isFirst = !this.sessionId && !this.#resetReason;
    const isSame = session === this.sessionId;
    const { kind, replayed, reason, age_s: ageS, drop_reason: dropReason } = told;
    const outcome: Outcome = this.#resetReason
      ? { kind: RESET, replayed: 0, reason: this.#resetReason, ageS: null, dropReason: "" }
      : { kind, replayed, reason, ageS, dropReason };
    this.sessionId = session;
    this.playerId = player;
    this.#token = token;
    this.#lineage = lineage;
    this.name = name;
    this.#wantedName = "";
    this.#resetReason = "";
    this.#isOutdated = false;
    if (credential) {
      this.credential = credential;
      this.#auth = { scheme: this.#scheme, credential };
    }
    this.#agree(terms);
    const events: Event[] = isSame ? [] : this.channels.clear(outcome.reason);
    // Those were of another session, also if a state that was saved in between does not know which.
    if (!isSame) this.#lastAnswered = 0;
    if (isSame && reason === "rolled_back") events.push(...this.channels.rollBack(channels, reason));
    events.push(...this.channels.resume(channels, outcome.reason));
    for (const { channel, received } of this.channels.finished()) this.#unsent.push(["ack", channel, received ?? 0]);
    if (!isSame && !isFirst) events.push(...this.#lostRequests(outcome.reason));
    this.#continueRequests(requests);
    this.isWelcome = true;
    return [...events, { is: "welcomed", outcome }];
  }

  /** Keep to the server's terms; with them, what may be kept has room for whatever `isFull` lets through. */
  #agree(terms: Terms): void {
    if (!Object.values(terms).every((term) => term > 0)) throw new ProtocolError("these terms cannot be kept");
    this.limits = {
      ...this.limits,
      payloadBytesMax: terms.payload_bytes_max,
      requestsInFlightMax: terms.requests_in_flight_max,
      windowMessagesMax: terms.window_messages_max,
      windowBytesMax: terms.window_bytes_max,
      keptMessagesMax: terms.window_messages_max,
      keptBytesMax: terms.window_bytes_max + terms.payload_bytes_max + MESSAGE_OVERHEAD_BYTES,
      silenceS: terms.silence_s,
    };
    this.channels.agree(this.limits);
  }

  /** The session is a new one, which knows nothing of these. */
  #lostRequests(reason: string): Event[] {
    const lost = [...this.#requests.keys()];
    this.#requests = new Map();
    this.#lastRequest = 0;
    return lost.map((id) => ({ is: "replied", id, result: null, problem: { code: RESET, message: reason } }));
  }

  #continueRequests(lastKnown: number): void {
    this.#lastRequest = Math.max(this.#lastRequest, lastKnown);
    this.#lastAnswered = Math.max(this.#lastAnswered, lastKnown);
    this.#unsent.push(...this.#requests.values());
  }
}
