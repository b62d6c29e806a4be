/** Several open channels at once, each with its purpose: the same claims as tests/client/test_protocol_purposes.py. */

import { beforeEach, expect, test } from "vitest";
import { Channels } from "../src/channels.js";
import type { ChannelInfo } from "../src/frames.js";
import { LIMITS } from "../src/limits.js";
import type { SavedState } from "../src/saved.js";

const NOBODY = { dialect: "", session: "s1", token: "", player: "ada", scheme: "guest", credential: "" };
let channels: Channels;

beforeEach(() => {
  channels = new Channels(LIMITS);
});

function open(number: number, purpose = "seat") {
  const [room, kind] = purpose === "session" ? ["", ""] : [`room-${number}`, "arena"];
  return channels.onSeat(["seat", "joined", number, 1, room, kind, purpose]);
}

function info(number: number, purpose = "seat", room = `room-${number}`): ChannelInfo {
  return { channel: number, generation: 2, applied: 0, room, kind: "arena", accepted: 0, purpose };
}

function saved(): SavedState {
  return { ...NOBODY, channels: channels.save(), finished: channels.finished(), newest: channels.newest() };
}

const numbers = () => [...channels].map(({ number }) => number);

test("a channel is the newest until another with its purpose is opened", () => {
  open(1);
  open(2, "spectator");
  expect([1, 2, 3].map((number) => channels.isNewest(number))).toEqual([true, true, false]);

  open(3);

  expect([1, 2, 3].map((number) => channels.isNewest(number))).toEqual([false, true, true]);
});

test("a channel may be announced after a younger one of another purpose", () => {
  open(1);
  open(3);

  open(2, "session");

  expect(numbers()).toEqual([1, 3, 2]);
  expect(() => open(2, "session")).toThrow("channel 2 was opened twice");
});

test("an old channel that is open outlasts younger ones that are not", () => {
  open(1, "session");
  open(2, "spectator");
  for (let number = 3; number < 20; number++) open(number);

  expect(numbers()).toEqual([1, 2, 15, 16, 17, 18, 19]);
});

test("a hello leaves out what is over before what is open", () => {
  open(1, "session");
  for (let number = 2; number < 6; number++) {
    open(number);
    channels.finish(channels.seat(number));
  }
  for (let number = 6; number < 12; number++) open(number);

  const told = channels.positions().map(({ channel }) => channel);

  expect(told).toHaveLength(8);
  expect(told).toEqual([...told].sort((one, other) => one - other));
  expect(told).toEqual(expect.arrayContaining([1, 7, 8, 9, 10, 11]));
});

test("a rollback keeps a channel only for the same purpose", () => {
  open(1);
  open(2, "session");
  open(3, "spectator");

  const events = channels.rollBack([info(1), info(2, "seat", ""), info(3)], "rolled_back");

  expect(events).toEqual([
    { is: "channel_gone", channel: 2, reason: "rolled_back", isReset: true },
    { is: "channel_gone", channel: 3, reason: "rolled_back", isReset: true },
  ]);
  expect(numbers()).toEqual([1]);
});

test("a saved session remembers what each channel is for", () => {
  open(1);
  open(2, "session");
  open(3, "spectator");
  open(4, "spectator");
  channels.finish(channels.seat(4));
  const state = saved();

  channels = new Channels(LIMITS);
  channels.load(state, false);

  expect(channels.seats().map((event) => "purpose" in event && [event.channel, event.purpose])).toEqual([
    [1, "seat"],
    [2, "session"],
    [3, "spectator"],
  ]);
  expect([1, 2, 3, 4].map((number) => channels.isNewest(number))).toEqual([true, true, false, true]);
});

test("a page that knows nothing asks every open room for its state, and the session's own stream for the rest", () => {
  open(1);
  open(2, "session");
  open(3, "spectator");
  const state = saved();

  channels = new Channels(LIMITS);
  channels.load(state, true);

  expect(channels.positions()).toEqual([
    { channel: 1, generation: 1, acked: 0 },
    { channel: 2, generation: 1, acked: 0, received: 0 },
    { channel: 3, generation: 1, acked: 0 },
  ]);
});

test("a session's own stream that began anew before we heard of it is a gap, in the next page too", () => {
  open(1);

  const events = channels.resume([info(1), info(2, "session", "")], "");
  const state = saved();
  channels = new Channels(LIMITS);
  channels.load(state, false);

  const restarted = (all: { is: string; channel: number }[]) => all.filter(({ is }) => is === "restarted");
  expect(restarted(events).map(({ channel }) => channel)).toEqual([1, 2]);
  expect(restarted(channels.seats()).map(({ channel }) => channel)).toEqual([1, 2]);
});
