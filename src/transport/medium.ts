/**
 * What carries frames from a rank to a neighbour: the socket of their link (a unix socket, or TCP); or a lane beside
 * the link (memory that both share, or a TCP stream).
 */
export type Medium = 'unix-socket' | 'tcp' | 'tcp-encrypted' | 'shared-memory' | 'tcp-stream' | 'tcp-stream-encrypted';
