import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Network, Pipe, socketsOf } from "../src/network";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("a good network holds nothing back", () => {
  const arrived: number[] = [];

  new Pipe(new Network()).push(() => arrived.push(1));

  expect(arrived).toEqual([1]);
});

test("jitter and loss hold payloads back and never change their order", () => {
  const chances = [0.9, 0.99, 0, 0, 0.5, 0.99];
  const network = new Network(() => chances.shift() ?? 0.5);
  Object.assign(network, { latencyMs: 50, jitterMs: 100, lossPercent: 10 });
  const pipe = new Pipe(network);
  const arrived: number[] = [];
  for (const number of [1, 2, 3]) {
    pipe.push(() => arrived.push(number));
  }

  vi.advanceTimersByTime(139);
  expect(arrived).toEqual([]);
  vi.advanceTimersByTime(5000);
  expect(arrived).toEqual([1, 2, 3]);
});

test("a payload that is lost comes later, and all that follow wait for it", () => {
  const chances = [0, 0, 0, 0.99];
  const network = new Network(() => chances.shift() ?? 0);
  Object.assign(network, { latencyMs: 10, lossPercent: 50 });
  const pipe = new Pipe(network);
  const arrived: number[] = [];
  pipe.push(() => arrived.push(1));
  pipe.push(() => arrived.push(2));

  vi.advanceTimersByTime(200);
  expect(arrived).toEqual([]);
  vi.advanceTimersByTime(40);
  expect(arrived).toEqual([1, 2]);
});

test("what is on its way when the link is cut never arrives", () => {
  const network = new Network();
  network.latencyMs = 10;
  const pipe = new Pipe(network);
  const arrived: number[] = [];
  pipe.push(() => arrived.push(1));

  pipe.cut();
  vi.advanceTimersByTime(100);

  expect(arrived).toEqual([]);
});

test("while the network is down no link is made", () => {
  const network = new Network();
  network.isDown = true;
  const Real = vi.fn();
  const Socket = socketsOf(network, Real as unknown as typeof WebSocket);
  const socket = new Socket("ws://game.example", []);
  const codes: number[] = [];
  socket.onclose = ({ code }) => codes.push(code);

  vi.advanceTimersByTime(1);

  expect(codes).toEqual([1006]);
  expect(Real).not.toHaveBeenCalled();
});
