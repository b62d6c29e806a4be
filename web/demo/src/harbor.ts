/** The demo's own small API: this page's connection, and the server's process. Served by the process that restarts the server. */

export interface Status {
  room: string;
  /** The server's process id; null while it is down. */
  pid: number | null;
  crashes: number;
  back_after_s: number;
  dashboard: string;
  /** Whether it is a cluster. */
  has_nodes: boolean;
}

export interface NodeStatus {
  name: string;
  /** Its process id; null while it is down. */
  pid: number | null;
  state: string;
  has_room: boolean;
}

export interface NodesStatus {
  nodes: NodeStatus[];
  /** The node that this page's connection is with; empty if it has none. */
  connected_to: string;
  /** The node that its session is on; empty while it is on none. */
  session_on: string;
}

export type NodeChange = "kill" | "drain" | "move";

export interface Link {
  link: string;
  url: string;
  /** Whether this tab, or the one that it was copied from, had it before. */
  isOld: boolean;
}

const LINK = "holdfast-demo-link";

/** This tab's link through the demo's proxy; the same one after the page is loaded again. */
export async function openLink(): Promise<Link> {
  const kept = sessionStorage.getItem(LINK) ?? "";
  const link: Omit<Link, "isOld"> = await ask("link", { link: kept });
  sessionStorage.setItem(LINK, link.link);
  return { ...link, isOld: link.link === kept };
}

/** Another player has another link: what a duplicated tab has copied is not its own. */
export function forgetLink(): void {
  sessionStorage.removeItem(LINK);
}

export async function change(link: string, request: { is_plugged?: boolean; delay_ms?: number }): Promise<void> {
  await ask("link/change", { link, ...request });
}

export async function crash(): Promise<void> {
  await ask("crash", {});
}

export async function nodes(link: string, session: string): Promise<NodesStatus> {
  return ask("nodes", { link, session });
}

export async function changeNode(what: NodeChange, request: { node: string; is_draining?: boolean }): Promise<void> {
  await ask(`nodes/${what}`, request);
}

export async function status(): Promise<Status> {
  return answer(await fetch("status"));
}

async function ask<T>(path: string, body: object): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  return answer(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function answer<T>(response: Response): Promise<T> {
  if (!response.ok) throw new Error(`The demo answered ${response.status}: ${await response.text()}`);
  return response.status === 204 ? (undefined as T) : response.json();
}
