/** Asks: a message whose sender waits for the answer, and hears exactly one thing of it, whatever happens. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Refused, Reset, SessionEnded, TimedOut } from "../src/errors.js";
import {
  data,
  type FakeServer,
  FakeStorage,
  goOn,
  later,
  seatAt,
  settled,
  standStill,
  welcome,
} from "./fake_server.js";

let server: FakeServer;

beforeEach(() => {
  server = standStill();
});
afterEach(goOn);

const answer = (seq: number, to: number, total: number | null) =>
  data(
    seq,
    "holdfast.answer",
    { seq: to, type: total === null ? "" : "bought", body: total === null ? null : { total } },
    to,
  );

test("an ask is a message with its own type and body in it, and the answer is the body of what came back", async () => {
  const { room } = await server.seated();
  const body = { count: 3 };
  const asking = room.ask("buy", body);
  body.count = 4;
  await settled();
  expect(server.last.all("data")).toEqual([["data", 1, 1, 0, "holdfast.ask", ["buy", { count: 3 }]]]);
  expect(room.unconfirmed).toEqual([{ number: 1, type: "buy", body: { count: 3 } }]);

  const nothing = room.ask("look");
  await settled();
  await server.last.say(answer(1, 1, 3), answer(2, 2, null));

  expect(await asking).toEqual({ total: 3 });
  expect(await nothing).toBe(null);
  expect(server.last.all("data").at(-1)).toEqual(["data", 1, 2, 0, "holdfast.ask", ["look", {}]]);
});

test("an answer is no message, and is acknowledged when what came before it was read", async () => {
  const { room } = await server.seated();
  const seen: unknown[] = [];
  const asking = room.ask("buy", { count: 1 });
  await settled();
  await server.last.say(data(1, "moved", { x: 1 }), answer(2, 1, 1));
  expect(await asking).toEqual({ total: 1 });
  await later(1);
  expect(server.last.all("ack")).toEqual([]);

  room.on("*", (_, type) => seen.push(type));
  await later(1);

  expect(seen).toEqual(["moved"]);
  expect(server.last.all("ack")).toEqual([["ack", 1, 2]]);
});

test("a refusal rejects as what it is, and is no message", async () => {
  const { room } = await server.seated();
  const seen: unknown[] = [];
  room.on("holdfast.refused", ({ seq }) => seen.push(seq));
  const asking = room.ask("buy", { count: 0 });
  room.send("buy", { count: 0 });
  const refused = (seq: number, to: number) =>
    data(seq, "holdfast.refused", { seq: to, type: "buy", code: "not_allowed", message: "no" }, to);

  await settled();
  await server.last.say(refused(1, 1), refused(2, 2));

  await expect(asking).rejects.toEqual(new Refused("not_allowed", "no"));
  expect(seen).toEqual([2]);
});

test("after a timeout or an abort the message is not taken back, and its answer is dropped", async () => {
  const { room } = await server.seated();
  const seen: unknown[] = [];
  room.on("*", (_, type) => seen.push(type));
  const abort = new AbortController();
  const ends = [
    expect(room.ask("buy", { count: 1 }, { timeoutS: 5 })).rejects.toEqual(
      new TimedOut('no answer to "buy" within 5 s'),
    ),
    // As a page without types may say that it has nothing to say.
    expect(room.ask("buy", { count: 2 }, { timeoutS: undefined } as never)).rejects.toEqual(
      new TimedOut('no answer to "buy" within 30 s'),
    ),
    expect(room.ask("buy", { count: 3 }, { signal: abort.signal })).rejects.toThrow("enough"),
  ];
  abort.abort(new Error("enough"));
  for (let id = 1; id <= 3; id++) {
    await later(10);
    await server.last.say(["ping", id, 0, 0, 0, 0]);
  }
  await Promise.all(ends);
  expect(server.last.all("data")).toHaveLength(3);

  await server.last.say(answer(1, 1, 1), answer(2, 2, 3), answer(3, 3, 6));

  expect(seen).toEqual([]);
});

test("an ask survives a drop: it is sent again with its number, and answered once", async () => {
  const { room } = await server.seated();
  const asking = room.ask("buy", { count: 3 });
  await settled();
  await server.last.end();
  await later(0.1);
  await server.welcomeBack("t2", 0);
  expect(server.last.all("data")).toEqual([["data", 1, 1, 0, "holdfast.ask", ["buy", { count: 3 }]]]);

  await server.last.say(answer(1, 1, 3), answer(1, 1, 3));

  expect(await asking).toEqual({ total: 3 });
});

test("a resync resets what the server had received, and answers the rest", async () => {
  const { room } = await server.seated();
  const seen: unknown[] = [];
  room.on("*", (body) => seen.push(body));
  const asking = [1, 2, 3].map((count) => room.ask("buy", { count }));
  const resets = asking.slice(0, 2).map((each) => expect(each).rejects.toEqual(new Reset("resynced")));
  await settled();
  await server.last.end();
  await later(0.1);
  await server.last.open();
  // The first was applied, the second received: its answer may come, but nobody waits for it.
  await server.last.say(welcome("s1", "t2", "resynced", [{ ...seatAt(1, 2), accepted: 2 }], 1));
  await Promise.all(resets);

  await server.last.say(answer(1, 2, 3), answer(2, 3, 6));

  expect(await asking[2]).toEqual({ total: 6 });
  expect(seen).toEqual([{}]);
});

test("whoever asks is told when the session is reset, the seat is gone or the session ends", async () => {
  const first = await server.seated();
  const reset = expect(first.room.ask("buy", { count: 1 })).rejects.toEqual(new Reset("expired"));
  await server.last.say(["close", 4101, "expired", "", 0, ""]);
  await server.last.end();
  await later(1);
  await server.last.open();
  await server.last.say(welcome("s2", "t1"));
  await reset;

  const { room } = await server.seated();
  const kicked = expect(room.ask("buy", { count: 1 })).rejects.toEqual(
    new Refused("not_seated", "the seat is gone: be kind"),
  );
  await server.last.say(data(1, "holdfast.left", { reason: "kicked", message: "be kind" }));
  await kicked;
  await expect(room.ask("buy", { count: 1 })).rejects.toMatchObject({ code: "not_seated" });

  const last = await server.seated();
  const ended = expect(last.room.ask("buy", { count: 1 })).rejects.toThrow(SessionEnded);
  last.session.close();
  await ended;
});

test("so many asks may be unanswered", async () => {
  const { room } = await server.seated();
  const asking = [];
  for (let count = 0; count < 1024; count++) asking.push(room.ask("buy", { count }).catch(() => {}));
  await settled();
  await server.last.say(["ack", 1, 1024]);

  await expect(room.ask("buy", { count: 1024 })).rejects.toMatchObject({ code: "throttled" });
});

test("the answer to what the page before this one asked is a message", async () => {
  const storage = new FakeStorage();
  const before = await server.seated({ storage, saved: "ada" });
  const asking = expect(before.room.ask("buy", { count: 3 })).rejects.toThrow(SessionEnded);
  await settled();
  before.session.suspend();
  await asking;

  const connecting = server.connect({ storage, saved: "ada", afterRefresh: "replay" });
  await vi.waitUntil(() => server.sockets.length === 2);
  await server.welcomeBack("t2", 0);
  const session = await connecting;
  const seen: unknown[] = [];
  session.room?.on("bought", (body) => seen.push(body));
  await server.last.say(answer(1, 1, 3));

  expect(seen).toEqual([{ total: 3 }]);
});
