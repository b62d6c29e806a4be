// Made by `holdfast types arena.py`; do not edit. Make it again when the game's messages change.

/** One ship, as everybody sees it; with how its commands came in, so that a player can compare. */
export interface Ship {
  name: string;
  place: [number, number];
  coins: number;
  is_here: boolean;
  steered: Tally;
}

/** From a player: move my ship. Numbered, so that the room can tell if one is missing or comes twice. */
export interface Steer {
  number: number;
  ship: string;
  dx: number;
  dy: number;
}

/** Counts numbered messages as they come in. */
export interface Tally {
  last: number;
  lost: number;
  doubled: number;
}

/** To every player, at every tick. Numbered, as the commands are. */
export interface View {
  number: number;
  ships: Record<string, Ship>;
  coins: [number, number][];
}

/** To a player who joins: your ship, its name, and the number of the last view you missed. */
export interface Welcome {
  ship: string;
  name: string;
  view: number;
}

/** Rooms of the kind "arena". */
export interface ArenaMessages {
  toServer: {
    steer: Steer;
  };
  toClient: {
    view: View;
    welcome: Welcome;
  };
  version: typeof arenaVersion;
}

/** Version 512a0211 of these messages: give it when you create and join rooms. */
export const arenaVersion = "512a0211.-G-x06dg0u9o4QWv6NSN7WLUB-PeDUAAEekZFw7FJUqXJyoHKsQAN1g_NDATO092RIrtSLINU5tsX2FZXIgzXohg_C9W_xPPbJPMfVO4fzAnhgbjiELgkipUv-VrwiYUwmrh";
