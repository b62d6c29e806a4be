/** As much as we use of a package that brings no types. */
declare module "ws" {
  export const WebSocket: typeof globalThis.WebSocket;
}
