/** What a room shares, as its client has it: read, heard of, in the order of messages, and got back when it is lost. */

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { FromServer, Hello } from "../src/frames.js";
import { RoomInbox } from "../src/seat.js";
import {
  data,
  type FakeServer,
  FakeStorage,
  goOn,
  later,
  ROOM,
  seatAt,
  settled,
  standStill,
  welcome,
} from "./fake_server.js";

const [PATCH, MORE, WHOLE] = [0, 1, 2];
let server: FakeServer;

beforeEach(() => {
  server = standStill();
});
afterEach(goOn);

/** A whole view. */
const view = (seq: number, turn = 0, more: object = {}): FromServer => {
  const roots = { state: { turn, pile: [] }, players: { ada: { score: 1 }, bot: { score: 2 } }, ...more };
  return data(seq, "holdfast.state", [WHOLE, [Object.entries(roots).flat()]]);
};
/** A change in one of the roots. */
const changed = (seq: number, root: string, node: unknown): FromServer =>
  data(seq, "holdfast.state", [PATCH, [[], [root, node]]]);
/** A change of the turn. */
const turned = (seq: number, turn: number): FromServer => changed(seq, "state", [["turn", turn]]);
const played = (seq: number, turn: number): FromServer => data(seq, "played", { turn });

const acked = () => Math.max(0, ...server.last.all("ack").map((frame) => Number(frame[2])));
const asked = () => server.last.all("request").filter((frame) => frame[2] === "view");

test("the server hears that this client follows the state", async () => {
  await server.seated();

  expect((server.last.heard[0] as Hello)[5]).toContain("state");
});

test("what a room shares is plain data", async () => {
  const { room } = await server.seated();
  const before = [room.state, room.players, room.mine];
  await server.last.say(view(1, 7));

  expect(before).toEqual([undefined, {}, undefined]);
  expect(room.state).toEqual({ turn: 7, pile: [] });
  expect(room.players).toEqual({ ada: { score: 1 }, bot: { score: 2 } });
  expect(room.mine).toEqual({ score: 1 });

  await server.last.say(changed(2, "players", [[], ["ada", [["score", 5]]]]));
  expect(room.mine).toEqual({ score: 5 });

  await server.last.say(view(3, 7, { mine: { score: 1, cards: ["ace"] } }));
  expect(room.mine).toEqual({ score: 1, cards: ["ace"] });
});

test("a game that reads no messages is up to date, and acknowledges", async () => {
  const { room } = await server.seated();
  await server.last.say(view(1), data(2, "holdfast.host", { player: "ada" }));
  for (let turn = 1; turn < 40; turn++) await server.last.say(turned(turn + 2, turn));
  await later(1);

  expect([room.state.turn, acked()]).toEqual([39, 41]);

  const heard: unknown[] = [];
  room.on("holdfast.host", ({ player }) => heard.push(player));
  await settled();
  expect(heard).toEqual(["ada"]);
});

test("every listener sees the state of its turn, however many messages come at once", async () => {
  const { room } = await server.seated();
  const seen: unknown[] = [];
  const frames = [view(1)];
  for (let turn = 1; turn < 10; turn++) frames.push(turned(2 * turn, turn), played(2 * turn + 1, turn));
  await server.last.say(...frames, turned(20, 10));
  await later(1);
  const before = [room.state.turn, acked()];

  room.on("played", ({ turn }) => seen.push([turn, room.state.turn]));
  await later(1);

  expect(before).toEqual([1, 2]);
  expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9].map((turn) => [turn, turn]));
  expect([room.state.turn, acked()]).toEqual([10, 20]);
});

test("the state stands still while a message that was received is dealt with", async () => {
  const { room } = await server.seated();
  await server.last.say(view(1, 1), played(2, 1), turned(3, 2), played(4, 2), turned(5, 3));

  expect([await room.receive("played"), room.state.turn]).toEqual([{ turn: 1 }, 1]);
  await settled();
  expect(room.state.turn).toBe(1);
  expect([await room.receive("played"), room.state.turn]).toEqual([{ turn: 2 }, 2]);
});

test("a state that waits for a message that nobody reads is complained of once, and goes on when it is acknowledged", async () => {
  const complained = vi.mocked(console.warn);
  const { room } = await server.seated();
  await server.last.say(view(1), played(2, 1));
  await room.receive("played");
  for (let turn = 1; turn < 150; turn++) await server.last.say(turned(turn + 2, turn));
  const told = complained.mock.calls.map(([text]) => text);
  const before = room.state.turn;
  room.acknowledge();

  expect(told).toEqual([expect.stringContaining("room.state waits")]);
  expect([before, room.state.turn]).toEqual([0, 149]);
});

test("a message that is received before others sees its own turn", async () => {
  const { room } = await server.seated();
  await server.last.say(view(1, 1), played(2, 1), turned(3, 2), data(4, "over", {}), turned(5, 3));

  await room.receive("over");
  expect(room.state.turn).toBe(2);
  await room.receive("played");
  expect(room.state.turn).toBe(2);
});

test("an answer does not move the state before the messages that wait", async () => {
  const { room } = await server.seated();
  await server.last.say(view(1, 1), played(2, 1));
  const asking = room.ask("play");
  await settled();
  await server.last.say(turned(3, 2), data(4, "holdfast.answer", { seq: 1, type: "", body: null }, 1));
  await asking;

  await room.receive("played");
  expect(room.state.turn).toBe(1);
});

test("listeners hear of changes in the order of messages", async () => {
  const { room } = await server.seated();
  const heard: unknown[] = [];
  room.onChange("state.turn", (turn) => heard.push(["turn", turn]));
  room.onChange("players.*", (player, id) => heard.push([id, player]));
  const off = room.onChange("state", (state) => heard.push(state.turn));
  room.on("played", ({ turn }) => heard.push(["played", turn]));
  await server.last.say(view(1, 1), played(2, 1), changed(3, "players", [[], [], ["bot"]]));
  off();
  await server.last.say(turned(4, 2));

  expect(heard).toEqual([
    ["turn", 1],
    ["ada", { score: 1 }],
    ["bot", { score: 2 }],
    1,
    ["played", 1],
    ["bot", undefined],
    ["turn", 2],
  ]);
});

test("a listener without a path hears of each change once", async () => {
  const { room } = await server.seated();
  const heard: unknown[] = [];
  await server.last.say(view(1));
  room.onChange((paths) => heard.push(paths));
  const node = [[], ["state", [["turn", 3]], "players", [[], ["bot", [["score", 4]]]]]];
  await server.last.say(data(2, "holdfast.state", [PATCH, node]));

  expect(heard).toEqual([
    [
      ["state", "turn"],
      ["players", "bot", "score"],
    ],
  ]);
});

test("a listener to one's own data hears of it wherever it is", async () => {
  const { room } = await server.seated();
  const heard: unknown[] = [];
  room.onChange("mine", (mine) => heard.push({ ...mine }));
  const off = room.onChange("mine.score", (score) => heard.push(score));
  await server.last.say(view(1), changed(2, "players", [[], ["bot", [["score", 4]]]]));
  await server.last.say(changed(3, "players", [[], ["ada", [["score", 5]]]]));
  const before = heard.splice(0);
  off();
  await server.last.say(view(4, 0, { mine: { score: 6, cards: ["ace"] } }));

  expect(before).toEqual([{ score: 1 }, 1, { score: 5 }, 5]);
  expect(heard).toEqual([{ score: 6, cards: ["ace"] }]);
});

test("a listener that throws stops nobody, and one may wait for a message", async () => {
  const complained = vi.spyOn(console, "error").mockImplementation(() => {});
  const { room } = await server.seated();
  const heard: unknown[] = [];
  room.onChange("state", () => {
    throw new Error("oops");
  });
  room.onChange("state.turn", () => {
    void room.receive("played").then(({ turn }) => heard.push([turn, room.state.turn]));
  });
  await server.last.say(view(1, 1), played(2, 1), turned(3, 2), played(4, 2), turned(5, 3));
  await later(1);

  expect(complained).toHaveBeenCalled();
  expect(heard).toEqual([[1, 1]]);
  room.acknowledge();
  await later(1);
  expect(heard).toEqual([
    [1, 1],
    [2, 2],
  ]);
  room.acknowledge();
  await later(1);
  expect([room.state.turn, acked()]).toEqual([3, 5]);
});

test("a view in parts is read when it is whole", async () => {
  const { room } = await server.seated();
  const heard: unknown[] = [];
  room.onChange(() => heard.push(room.state.turn));
  await server.last.say(data(1, "holdfast.state", [WHOLE | MORE, [["state", { turn: 1 }]]]));
  const half = [room.state, heard.length];
  await server.last.say(data(2, "holdfast.state", [PATCH, [["players", {}]]]));

  expect(half).toEqual([undefined, 0]);
  expect(heard).toEqual([1]);
});

describe("immutable", () => {
  test("a change makes new objects along its path, if that is asked for at connect", async () => {
    const { room } = await server.seated({ immutable: true });
    await server.last.say(view(1, 1));
    const { state, players } = room;
    await server.last.say(turned(2, 2));

    expect([state.turn, room.state.turn]).toEqual([1, 2]);
    expect(room.players).toBe(players);
    expect(room.state.pile).toBe(state.pile);
  });

  test("or at a join, which says nothing of it to the server", async () => {
    const { session } = await server.seated();
    const joining = session.join("r2", { immutable: true });
    await settled();
    expect(server.last.all("request").at(-1)).toEqual(["request", 2, "join", { room: "r2" }]);
    const seat: FromServer = ["seat", "joined", 2, 1, "r2", "arena", "seat"];
    const whole: FromServer = ["data", 2, 1, 0, "holdfast.state", [WHOLE, [["state", { turn: 1 }]]]];
    await server.last.say(seat, whole, ["reply", 2, { ...ROOM, id: "r2" }, null]);
    const room = await joining;
    const before = room.state;
    await server.last.say(["data", 2, 2, 0, "holdfast.state", [PATCH, [[], ["state", [["turn", 2]]]]]]);

    expect([before.turn, room.state.turn]).toEqual([1, 2]);
  });

  test("else the same object changes", async () => {
    const { room } = await server.seated();
    await server.last.say(view(1, 1));
    const { state } = room;
    await server.last.say(turned(2, 2));

    expect(room.state).toBe(state);
  });
});

describe("lost", () => {
  test.each([
    ["a change of what is not there", [PATCH, [[], ["nothing", [["turn", 1]]]]]],
    ["what is no change", [PATCH, "nonsense"]],
    ["what is no message", "nonsense"],
  ])("after %s it is not shown, and asked for once", async (_, body) => {
    const { room } = await server.seated();
    await server.last.say(view(1, 1));
    await server.last.say(data(2, "holdfast.state", body), turned(3, 2), turned(4, 3));

    expect([room.state, room.players, room.mine]).toEqual([undefined, {}, undefined]);
    expect(asked()).toEqual([["request", 2, "view", { purpose: "seat" }]]);

    await server.last.say(turned(5, 4), ["reply", 2, null, null], view(6, 5), turned(7, 6));
    await later(1);
    expect([room.state.turn, acked(), asked().length]).toEqual([6, 7, 1]);

    await server.last.say(data(8, "holdfast.state", body));
    expect(asked()).toHaveLength(2);
  });

  test("a view that makes no sense is not asked for again", async () => {
    const { room } = await server.seated();
    await server.last.say(data(1, "holdfast.state", [WHOLE, "nonsense"]));
    await server.last.say(["reply", 2, null, null], data(2, "holdfast.state", [WHOLE, "nonsense"]));

    expect(asked()).toHaveLength(1);
    expect(room.state).toBeUndefined();
  });

  test("messages go on, and a refusal harms nobody", async () => {
    const { room } = await server.seated();
    await server.last.say(turned(1, 1), played(2, 1));
    await server.last.say(["reply", 2, null, { code: "not_seated", message: "no" }]);

    expect([await room.receive("played"), room.state]).toEqual([{ turn: 1 }, undefined]);
  });
});

test("spectators see what is public, and read on in the seat that they are given", async () => {
  const connecting = server.connect();
  await settled();
  await server.last.open();
  await server.last.say(welcome("s1", "t1"));
  const session = await connecting;
  const watching = session.spectate("r1", { immutable: true });
  await settled();
  await server.last.say(["seat", "joined", 1, 1, "r1", "arena", "spectator"], ["reply", 1, ROOM, null]);
  const watched = await watching;
  await server.last.say(view(1, 3, { players: { bot: { score: 2 } } }));
  const seen = [watched.state.turn, watched.players, watched.mine];
  await server.last.say(changed(2, "nothing", [[]]));

  expect(seen).toEqual([3, { bot: { score: 2 } }, undefined]);
  expect(asked()).toEqual([["request", 2, "view", { purpose: "spectator" }]]);

  const whole = ["data", 2, 1, 0, "holdfast.state", [WHOLE, [["state", { turn: 4 }]]]] as const;
  await server.last.say(["seat", "joined", 2, 1, "r1", "arena", "seat"], whole as unknown as FromServer);
  const before = session.room?.state;
  await server.last.say(["data", 2, 2, 0, "holdfast.state", [PATCH, [[], ["state", [["turn", 5]]]]]]);
  expect([before.turn, session.room?.state.turn]).toEqual([4, 5]);
});

test("a resumed stream goes on with the state", async () => {
  const { room } = await server.seated();
  await server.last.say(view(1, 1));
  await server.last.end();
  await later(1);
  await server.welcomeBack("t2", 0);
  await server.last.say(turned(2, 2));

  expect([room.state.turn, asked()]).toEqual([2, []]);
});

test("after a resync the view comes by itself, and its turn is seen by whoever hears of it", async () => {
  const { room } = await server.seated();
  await server.last.say(view(1, 1), played(2, 1), turned(3, 2));
  await server.last.end();
  await later(1);
  await server.last.open();
  await server.last.say(welcome("s1", "t2", "resynced", [seatAt(0, 2)], 1));
  await server.last.say(view(1, 8), played(2, 8), turned(3, 9));
  const seen: unknown[] = [];
  room.on("*", (_, type) => seen.push([type, room.state.turn]));
  await settled();

  expect(seen).toEqual([
    ["holdfast.resynced", 8],
    ["played", 8],
  ]);
  expect([room.state.turn, asked()]).toEqual([9, []]);
});

describe("another page", () => {
  /** A page that heard this in its seat, and is left; the next one is welcome. */
  async function refreshed(said: FromServer[], back: FromServer, options = {}) {
    const storage = new FakeStorage();
    await server.seated({ storage });
    await server.last.say(...said);
    await later(1);
    server.last.onmessage = server.last.onclose = null;
    const connecting = server.connect({ storage: storage.copy(), tabs: "takeover", ...options });
    await vi.waitUntil(() => server.sockets.length === 2);
    await server.last.open();
    await server.last.say(back);
    return connecting;
  }

  test("that replays asks for the view of a room that shares one", async () => {
    const back = welcome("s1", "t2", "resumed", [seatAt(0)], 1);
    const session = await refreshed([view(1, 1), turned(2, 2)], back, { afterRefresh: "replay" });
    expect(asked()).toEqual([["request", 2, "view", { purpose: "seat" }]]);
    await server.last.say(turned(3, 3));
    const before = session.room?.state;
    await server.last.say(["reply", 2, null, null], view(4, 3), turned(5, 4));
    await later(1);

    expect([before, session.room?.state.turn, acked(), asked().length]).toEqual([undefined, 4, 5, 1]);
  });

  test("asks for nothing if nothing is shared", async () => {
    const back = welcome("s1", "t2", "resumed", [seatAt(0)], 1);
    await refreshed([data(1, "holdfast.host", { player: "ada" })], back, { afterRefresh: "replay" });

    expect(asked()).toEqual([]);
  });

  test("gets the view by itself with the room's state", async () => {
    const back = welcome("s1", "t2", "resynced", [seatAt(0, 2)], 1);
    const session = await refreshed([view(1, 1)], back);
    await server.last.say(view(1, 5));

    expect([session.room?.state.turn, asked()]).toEqual([5, []]);
  });
});

test("the word of a gap waits for its reader, and the state does not wait for that", () => {
  const processed: number[] = [];
  const inbox = new RoomInbox(({ seq }) => processed.push(seq), 1, 0);
  const arrived = (seq: number, type: string) =>
    ({ is: "arrived", session: "s1", channel: 1, generation: 2, seq, type, body: {} }) as const;
  inbox.restart(arrived(0, ""));
  for (const seq of [1, 3, 5]) {
    inbox.putChange(arrived(seq, "holdfast.state"));
    inbox.put(arrived(seq + 1, "holdfast.host"));
  }
  inbox.putChange(arrived(7, "holdfast.state"));
  expect(processed).toEqual([1, 3, 5, 7]);

  expect(inbox.next()?.type).toBe("holdfast.resynced");
  inbox.acknowledge();
  expect(processed).toEqual([1, 3, 5, 7, 0]);
});

test("a seat that is left keeps the last state, and takes no other", async () => {
  const { room } = await server.seated();
  await server.last.say(view(1, 1), played(2, 1), turned(3, 2));
  const leaving = room.leave();
  await settled();
  await server.last.say(["reply", 2, null, null]);
  await leaving;
  await server.last.say(turned(4, 3));
  await later(1);

  expect([room.state.turn, acked()]).toEqual([1, 4]);
});
