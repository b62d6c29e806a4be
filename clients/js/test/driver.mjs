// @ts-check
// The JavaScript SDK as a program: commands as JSON lines on stdin, answers and events as JSON lines on stdout.
// tests/conformance/sdks/driver.py says what they are; it does the same for Python.

import { createInterface } from "node:readline";
import { WebSocket } from "ws";
import { connect } from "../dist/index.js";

/** @type {import("../dist/index.js").ClientSession} */
let session;
/** @type {import("../dist/index.js").ClientRoom} */
let room;
const heard = {
  down: 0,
  wrong: /** @type {number[]} */ ([]),
  words: /** @type {string[]} */ ([]),
  stale: /** @type {number[]} */ ([]),
  stateless: 0,
  changes: 0,
};
let sent = 0;
/** @type {{ until: number, tell: (told: object) => void }[]} */
let waiting = [];

/** @type {string | null} */
let stored = null;
const storage = {
  getItem: () => stored,
  /** @param {string} text */
  setItem: (/** @type {string} */ _, text) => {
    stored = text;
  },
  removeItem: () => {
    stored = null;
  },
};

/** @param {object} said */
const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);

/** @param {import("../dist/index.js").Outcome | null} outcome */
const told = (outcome) => ({ kind: outcome?.kind, replayed: outcome?.replayed, reason: outcome?.reason });

/** @param {import("../dist/index.js").ClientRoom} joined */
function listen(joined) {
  room = joined;
  room.onChange(() => {
    heard.changes += 1;
  });
  room.on("down", ({ number }) => {
    if (number !== heard.down + 1) heard.wrong.push(number);
    heard.down = number;
    if (joined.state === undefined) heard.stateless += 1;
    else if (joined.state.down !== number) heard.stale.push(number);
  });
  room.on("state", ({ down }) => {
    heard.down = down;
  });
  room.on("*", () => {
    for (const { tell } of waiting.filter(({ until }) => heard.down >= until)) tell(heard);
    waiting = waiting.filter(({ until }) => heard.down < until);
  });
  room.on("word", ({ where }) => heard.words.push(where));
  room.on("holdfast.resynced", () => {
    heard.words.push("resynced");
    say({ event: "resynced" });
  });
  room.on("holdfast.refused", (message) => say({ event: "unexpected", message }));
  room.on("holdfast.left", ({ reason }) => say({ event: "left", reason }));
}

/** @type {Record<string, (command: any) => Promise<object | void> | object | void>} */
const ways = {
  async connect({ url, resume, codec, name, down = 0, up = 0 }) {
    stored = resume ?? null;
    session = await connect(url, {
      WebSocket,
      giveUpS: 60,
      storage,
      afterRefresh: "replay",
      ...(codec && { codec }),
      ...(name && { name }),
    });
    session.on("drop", () => say({ event: "drop" }));
    session.on("resume", (outcome) => say({ event: "resume", outcome: told(outcome) }));
    session.on("stopping", ({ deadlineS }) => say({ event: "stopping", deadline_s: deadlineS }));
    session.on("close", (error) => say({ event: "close", reason: /** @type {any} */ (error).reason }));
    heard.down = down;
    sent = up;
    const seat = session.room ?? session.spectating;
    if (seat) listen(seat);
    return { session: session.id, player: session.playerId, name: session.name, outcome: told(session.outcome) };
  },
  async rename({ name }) {
    return { name: await session.rename(name) };
  },
  async create({ kind, ...options }) {
    return { room: (await session.create(kind, options)).id };
  },
  async spectate({ room: id }) {
    listen(await session.spectate(id));
    return { room: id };
  },
  seat() {
    if (session.room) listen(session.room);
    return { room: room.id };
  },
  async join({ kind = "counting", room: id, ...options }) {
    listen(await (id ? session.join(id, options) : session.joinOrCreate(kind, options)));
    return { room: room.id };
  },
  async reserve({ room: id, ...options }) {
    await session.reserve(id, options);
  },
  async count({ numbers, answers = 0 }) {
    for (let i = 0; i < numbers; i++) {
      sent += 1;
      await room.send("up", { number: sent, answers });
    }
  },
  async ask({ number, times = 1, wait_s = 0 }) {
    const answers = [];
    for (let i = 0; i < times; i++) answers.push((await room.ask("add", { number, wait_s })).sum);
    return { answers };
  },
  pour: ({ numbers }) => room.send("pour", { numbers }),
  flush: () => room.flush(),
  heard: ({ until = 0 }) => (heard.down >= until ? heard : new Promise((tell) => waiting.push({ until, tell }))),
  shared: () => ({
    state: room.state ?? null,
    players: room.players,
    mine: room.mine ?? null,
    changes: heard.changes,
  }),
  async receive({ numbers }) {
    const messages = [];
    for (let i = 0; i < numbers; i++) messages.push(await session.receive());
    return { messages: messages.map(({ type, body }) => [type, body]) };
  },
  save: () => ({ state: stored }),
  suspend: () => {
    session.suspend();
    return { state: stored };
  },
  leave: () => room.leave(),
  close: () => session.close(),
};

const lines = createInterface({ input: process.stdin });
lines.on("line", async (line) => {
  const { do: name, ...command } = JSON.parse(line);
  try {
    say({ done: name, ...(await ways[name]?.(command)) });
  } catch (error) {
    const { reason, code, message } = /** @type {any} */ (error);
    say({ done: name, error: reason ?? code ?? "unreachable", message });
  }
});
lines.on("close", () => process.exit());
