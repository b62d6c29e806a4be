/**
 * The cases of benchmarks/state.py with @colyseus/schema: the same states and the same changes. Prints one JSON object.
 *
 * `step` is what the game's own assignments take, tracking included; `sync` is encoding the changes.
 */

import { performance } from "node:perf_hooks";
import { Encoder, schema, t } from "@colyseus/schema";
import { body, move, World } from "./world.mjs";

const Card = schema({ rank: t.uint8(), suit: t.string() }, "Card");
const Seat = schema({ score: t.int32(), name: t.string(), ready: t.boolean(), hand: t.array(Card) }, "Seat");
const Table = schema({ turn: t.int32(), phase: t.string(), pile: t.array(Card), seats: t.map(Seat) }, "Table");
const Tiles = schema({ tiles: t.array("uint8") }, "Tiles");

const card = (rank) => Object.assign(new Card(), { rank: rank % 13, suit: "clubs" });
function table() {
  const state = Object.assign(new Table(), { turn: 0, phase: "play" });
  for (let i = 0; i < 12; i++) state.pile.push(card(i));
  for (let i = 0; i < 4; i++) {
    const seat = Object.assign(new Seat(), { score: 0, name: `player ${i}`, ready: true });
    for (let j = 0; j < 7; j++) seat.hand.push(card(j));
    state.seats.set(`p${i}`, seat);
  }
  // One plays a card and draws one.
  const step = (n) => {
    const seat = state.seats.get(`p${n % 4}`);
    const [played] = seat.hand.splice(n % 7, 1);
    state.pile.push(card(played.rank));
    seat.hand.push(card(n));
    if (state.pile.length > 20) state.pile.splice(0, 8);
    state.turn = n;
    seat.score += 1;
  };
  return { state, step };
}

function world(count, every) {
  const state = new World();
  for (let i = 0; i < count; i++) state.bodies.set(`e${i}`, body(i));
  const movers = [...state.bodies.values()].filter((_, i) => i % every === 0);
  const step = () => move(movers);
  return { state, step };
}

function tiles() {
  const state = new Tiles();
  for (let i = 0; i < 10_000; i++) state.tiles.push(i % 8);
  const step = (n) => {
    for (const at of [n % 10_000, (n * 7 + 3000) % 10_000, (n * 13 + 7000) % 10_000])
      state.tiles[at] = (state.tiles[at] + 1) % 8;
  };
  return { state, step };
}

const CASES = {
  "card table": [table, 20_000],
  "50 players, all move": [() => world(50, 1), 5_000],
  "1,000 entities, 50 move": [() => world(1000, 20), 4_000],
  "10,000 tiles, 3 change": [tiles, 20_000],
};

function measured([make, syncs]) {
  const { state, step } = make();
  const encoder = new Encoder(state);
  encoder.encodeAll();
  encoder.discardChanges();
  let n = 0;
  let bytes = 0;
  const best = { step: Infinity, sync: Infinity, whole: Infinity };
  for (let round = 0; round < 5; round++) {
    let stepping = 0;
    let syncing = 0;
    // Many syncs between two looks at the clock would mean many changes in one: each is timed alone.
    for (let i = 0; i < syncs / 5; i++) {
      const began = performance.now();
      step(n++);
      const stepped = performance.now();
      bytes = encoder.encode().length;
      encoder.discardChanges();
      syncing += performance.now() - stepped;
      stepping += stepped - began;
    }
    best.step = Math.min(best.step, (stepping / (syncs / 5)) * 1000);
    best.sync = Math.min(best.sync, (syncing / (syncs / 5)) * 1000);
    const began = performance.now();
    for (let i = 0; i < 20; i++) encoder.encodeAll();
    best.whole = Math.min(best.whole, ((performance.now() - began) / 20) * 1000);
  }
  return { ...best, bytes, whole_bytes: encoder.encodeAll().length };
}

console.log(JSON.stringify(Object.fromEntries(Object.entries(CASES).map(([name, each]) => [name, measured(each)]))));
