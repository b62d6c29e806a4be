/** The panel beside the game: figures, log, players. */

import type { Game } from "./game";
import { colorOf } from "./sea";

export type Tone = "good" | "warn" | "bad" | "";

const LOG_MAX = 8;

export function byId<T extends HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`The page has no #${id}.`);
  return element as T;
}

/** A line in the log; the newest is on top. */
export function tell(text: string, tone: Tone = ""): void {
  const line = document.createElement("li");
  const time = document.createElement("time");
  time.textContent = new Date().toLocaleTimeString([], { hour12: false });
  const what = document.createElement("span");
  what.textContent = text;
  if (tone) what.dataset.tone = tone;
  line.append(time, what);
  const log = byId("log");
  log.prepend(line);
  while (log.childElementCount > LOG_MAX) log.lastElementChild?.remove();
}

/** The notice over the sea; empty when all is well. */
export function notice(text: string, tone: Tone = ""): void {
  const element = byId("notice");
  if (element.textContent !== text) element.textContent = text;
  element.dataset.tone = tone;
}

export function set(id: string, text: string): void {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

export function figures(
  game: Game,
  link: { replayed: number; drops: number; backMs: number | null; rttMs: number },
): void {
  set("lost", `${game.lost}`);
  set("duplicated", `${game.duplicated}`);
  byId("lost").classList.toggle("wrong", game.lost > 0);
  byId("duplicated").classList.toggle("wrong", game.duplicated > 0);
  set("replayed", link.replayed.toLocaleString());
  set("drops", `${link.drops}`);
  set("back", link.backMs === null ? "–" : duration(link.backMs));
  set("rtt", link.rttMs ? `${link.rttMs.toFixed(link.rttMs < 10 ? 1 : 0)} ms` : "–");
  set("sent", game.sent.toLocaleString());
  set("received", game.received.toLocaleString());
}

export function duration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export function ships(game: Game): void {
  const list = byId("ships");
  const pilots = Object.values(game.room?.players ?? {}).sort((a, b) => b.coins - a.coins);
  list.replaceChildren(
    ...pilots.map((pilot) => {
      const line = document.createElement("li");
      const isOwn = pilot.ship === game.own?.ship;
      line.classList.toggle("own", isOwn);
      line.classList.toggle("disconnected", !pilot.is_here);
      const mark = document.createElement("span");
      mark.className = "mark";
      mark.style.background = colorOf(pilot.ship);
      const name = document.createElement("span");
      name.className = "name";
      name.textContent = pilot.name + (isOwn ? " (you)" : "") + (pilot.is_here ? "" : ", disconnected");
      const coins = document.createElement("span");
      coins.textContent = `${pilot.coins}`;
      line.append(mark, name, coins);
      return line;
    }),
  );
}
