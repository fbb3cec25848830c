/**
 * What carries frames from a rank to a neighbour: the socket of their link (a unix socket, or TCP), or a lane beside
 * the link (shared memory, or a TCP connection).
 */
export type Medium = 'unix-socket' | 'tcp' | 'tcp-encrypted' | 'shared-memory' | 'tcp-lane' | 'tcp-lane-encrypted';
