// A page fills an element, and returns a function that stops it.

import type { EventInfo, Overview } from "./api";
import type { History } from "./numbers";

export interface Shared {
  /** Whether the server is a node of a cluster. */
  isCluster: boolean;
  /** The node's numbers of the last minutes. */
  history: History;
  /** Called with every new snapshot of the node, until stopped. */
  onOverview: (then: (overview: Overview) => void) => () => void;
  /** Events since the dashboard was opened, the newest last, up to a limit. */
  events: EventInfo[];
}

/** Render into `root`; the returned function stops everything that was started. */
export type Page = (root: HTMLElement, parameter: string, shared: Shared) => () => void;
