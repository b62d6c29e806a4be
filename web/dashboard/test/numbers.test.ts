import { expect, test } from "vitest";
import type { Overview, Spread } from "../src/api";
import { History, KEPT, quantileOf } from "../src/numbers";

const spread = (...counts: number[]): Spread => ({ bounds: [0.01, 0.1, 1], counts, sum: 0 });

function look(at: number, totals: Record<string, number>, roundTrip = spread(0, 0, 0, 0)): Overview {
  const node = {
    name: "n",
    region: "r",
    is_ready: true,
    is_healthy: true,
    rooms: 0,
    rooms_max: 9,
    sessions: 0,
    reasons: [],
  };
  const spreads = { round_trip: roundTrip };
  return {
    at,
    node,
    players: 3,
    sessions: { connected: 2, disconnected: 1 },
    rooms: { a: 1, b: 2 },
    totals,
    drops: {},
    spreads,
    limits: [],
    nodes: [],
    missing: [],
  };
}

test("a rate is what was counted between two looks, by the second", () => {
  const history = new History();
  history.add(look(10, { frames_sent: 100 }));
  history.add(look(12, { frames_sent: 150 }));

  expect(history.samples.map((each) => each.sent)).toEqual([null, 25]);
  expect(history.samples.at(-1)).toMatchObject({ players: 3, connected: 2, disconnected: 1, rooms: 3 });
});

test("another start of the server is not compared with the one before", () => {
  const history = new History();
  history.add(look(10, { connections: 50, frames_sent: 1000 }));
  history.add(look(11, { connections: 1, frames_sent: 3 }));

  expect(history.samples.at(-1)?.sent).toBeNull();
});

test("no more is kept than is shown", () => {
  const history = new History();
  for (let at = 0; at < KEPT + 50; at += 1) {
    history.add(look(at, {}));
  }

  expect(history.samples).toHaveLength(KEPT);
  expect(history.samples[0]?.at).toBe(50);
});

test.each([
  [spread(0, 0, 0, 0), undefined, 0.5, null],
  [spread(10, 10, 10, 10), undefined, 0.5, 0.005],
  [spread(5, 10, 10, 10), undefined, 0.75, 0.055],
  [spread(0, 0, 0, 4), undefined, 0.99, 1],
  [spread(100, 110, 110, 110), spread(100, 100, 100, 100), 0.5, 0.055],
])("the quantile of %j after %j at %d is %d", (now, before, share, expected) => {
  const found = quantileOf(now, before, share);

  expected === null ? expect(found).toBeNull() : expect(found).toBeCloseTo(expected);
});

test("the numbers of other nodes cannot be compared with those before", () => {
  const of = (at: number, life: string, applied: number) => ({
    at,
    name: life,
    life,
    is_ready: true,
    is_healthy: true,
    reasons: [],
    players: 0,
    sessions: {},
    rooms: 0,
    totals: { messages_applied: applied },
  });
  const cluster = (at: number, ...nodes: ReturnType<typeof of>[]) => ({
    ...look(at, { messages_applied: nodes.reduce((sum, each) => sum + (each.totals.messages_applied ?? 0), 0) }),
    nodes,
  });
  const history = new History();
  history.add(cluster(10, of(10, "a", 100), of(10, "b", 1000)));
  history.add(cluster(11, of(11, "a", 110), of(11, "b", 1020)));

  expect(history.samples.at(-1)?.applied).toBe(30);
  expect([of(11, "a", 110), of(11, "b", 1020)].map((each) => history.rateOf(each, "messages_applied"))).toEqual([
    10, 20,
  ]);

  history.add(cluster(12, of(12, "a", 120)));
  expect(history.samples.at(-1)?.applied).toBeNull();
  expect(history.rateOf(of(12, "a", 120), "messages_applied")).toBeNull();

  history.add(cluster(13, of(13, "a", 125)));
  expect(history.samples.at(-1)?.applied).toBe(5);
});
