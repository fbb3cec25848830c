import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import type { GradringError } from '../../errors';
import { type Offer, protocolError } from '../../wire/frame';
import { copyBytes } from '../../memory/buffers';
import { PROOF_MS, register, unregister } from '../control/open-sockets';
import { deferred } from '../deferred';
import type { Medium } from '../ring-place';
import { HEAD_BYTES } from './frame-assembly';
import { Lane } from './lane';
import { hasSystemCalls, poll, type Polled, receiveNow, sendNow, sendUnpaced } from './system-calls';

/** The connecting end shows the first half of the token, and the listening end answers with the other half. */
const TOKEN_BYTES = 64;
const HALF_BYTES = TOKEN_BYTES / 2;

/** At most so many connections are open that have not shown the token yet. A new one displaces the oldest. */
const MAX_UNVERIFIED = 64;

/** How much the event loop reads at a time. Where system calls read, it reads only the head of a frame. */
const BUFFER_BYTES = 64 * 1024;

/** As often as the heartbeats of links: routers forget connections that carry nothing. */
const KEEP_ALIVE_MS = 10_000;

const SOCKET = { noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS } as const;

/**
 * There are no certificates: the token is the key, and only the other end of the link has it. Node supports such keys
 * (PSK) up to this version of TLS.
 */
const TLS = {
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
  ciphers: 'PSK-AES256-GCM-SHA384:PSK-CHACHA20-POLY1305',
} as const;

/** Where a lane listens. */
export interface LanePlace {
  /** An address of this host. Undefined: all. */
  readonly host: string | undefined;
  /** 0: one that the system chooses. */
  readonly port: number;
  /** The address that the other end is told. */
  readonly told: string;
  /** Returns the port that the other end is told instead of that at which the lane listens. Default: the same. */
  readonly publish?: (port: number) => Promise<number>;
}

/** `opening` until both ends have shown the token; `finished` once this end sends no more. */
type State = 'opening' | 'open' | 'finished' | 'closed';

/**
 * A lane between hosts: one TCP connection beside the link, encrypted by TLS if the link is encrypted. ZeroMQ would
 * hand each frame from thread to thread and copy it once more. Here the thread that uses a frame reads it, straight to
 * the place where it is used.
 *
 * `node:net` makes the connection and tells when it ends. System calls move the bytes. `node:net` moves them only where
 * the event loop waits for them, or where those calls cannot be used. `node:tls` moves all bytes of an encrypted
 * connection.
 *
 * One end listens, and sends its address and a token in its greeting, which is as secret as the data of the link. The
 * other end connects.
 */
export class TcpLane extends Lane {
  readonly medium: Medium;
  private state: State = 'opening';
  private readonly opening = deferred();
  private socket: Socket | undefined;
  /** What has arrived of the other end's half of the token. */
  private shown = Buffer.alloc(0);
  private movesDirectly: boolean;
  /** Whether the kernel had no more room for what was sent last. */
  private socketIsFull = false;
  private isReading = true;
  /** Whether {@link receiveNow} takes what the event loop has read. */
  private takesRead = false;
  /** Whether the other end sends no more, and all that it has sent is to be read. */
  private readsToEnd = false;
  private hasEnded = false;
  private readonly ended = deferred();

  private constructor(
    isEncrypted: boolean,
    private readonly token: Buffer,
    private readonly listener?: Listener,
  ) {
    super();
    register(this);
    this.medium = isEncrypted ? 'tcp-lane-encrypted' : 'tcp-lane';
    this.movesDirectly = !isEncrypted && hasSystemCalls();
  }

  /**
   * Listens at an address of this host.
   *
   * @param isEncrypted The same at both ends.
   * @throws The system's error, where that is impossible.
   */
  static async listen(place: LanePlace, isEncrypted: boolean): Promise<TcpLane> {
    const token = randomBytes(TOKEN_BYTES);
    const listener = await Listener.open(place, isEncrypted, token, socket => lane.admit(socket));
    const lane = new TcpLane(isEncrypted, token, listener);
    return lane;
  }

  /**
   * Connects to a lane that listens.
   *
   * @throws GradringError `ERR_PROTOCOL` if there is no token in the offer.
   */
  static connect({ host, port, token }: Offer, isEncrypted: boolean): TcpLane {
    const psk = Buffer.from(token, 'hex');
    if (psk.length !== TOKEN_BYTES) throw protocolError('offers no token');
    const lane = new TcpLane(isEncrypted, psk);
    const onread = {
      buffer: Buffer.alloc(lane.movesDirectly ? HEAD_BYTES : BUFFER_BYTES),
      callback: (count: number, bytes: Uint8Array) => lane.heard(bytes.subarray(0, count)),
    };
    const place = { ...SOCKET, host, port, onread };
    const key = { pskCallback: () => ({ psk, identity: 'gradring' }), checkServerIdentity: () => undefined };
    const socket = isEncrypted ? connectTls({ ...TLS, ...key, ...place }) : connect(place);
    lane.use(socket);
    socket.write(psk.subarray(0, HALF_BYTES));
    return lane;
  }

  override get offer(): Offer | undefined {
    const { listener, token } = this;
    return listener && { host: listener.told, port: listener.toldPort, token: token.toString('hex') };
  }

  opened(): Promise<void> {
    return this.opening.promise;
  }

  get isDirect(): boolean {
    return this.movesDirectly;
  }

  polled(): readonly Polled[] {
    const file = this.descriptor;
    if (file === undefined) return [];
    const polled: Polled[] = [];
    if (!this.isBroken && !this.assembly.isFull) polled.push({ file, for: 'input' });
    if (this.waitsForRoom && this.unsent.length > 0) polled.push({ file, for: 'room' });
    return polled;
  }

  prepareToWait(where: 'poll' | 'event loop'): void {
    if (where === 'poll') return;
    if (this.waitsForRoom) this.handOver();
    // A neighbour says goodbye before it ends the connection. So something between the two has ended it.
    if (this.hasEnded && this.waitsForFrame) this.lost();
    if (!this.isReading && !this.assembly.isFull) this.readOn();
  }

  finish(): void {
    if (this.state !== 'open') return this.close();
    this.state = 'finished';
    this.socket!.end();
  }

  override fail(error: GradringError): void {
    // What the event loop has not sent yet belongs to the caller from now on, which may write to it.
    if (!this.isFlushed) this.socket?.destroy();
    super.fail(error);
  }

  otherFinished(): Promise<void> {
    this.readsToEnd = true;
    if (this.state === 'opening' || this.state === 'closed') this.ended.resolve();
    else this.readOn();
    return this.ended.promise;
  }

  close(): void {
    if (this.state === 'closed') return;
    this.state = 'closed';
    unregister(this);
    this.listener?.close();
    this.socket?.destroy();
    this.ended.resolve();
    this.opening.reject(new Error('The lane was closed.'));
  }

  /** A connection has shown the first half of the token. Returns whether it becomes the lane's. */
  private admit(socket: Socket): boolean {
    if (this.state !== 'opening') return false;
    this.use(socket);
    socket
      .on('data', bytes => {
        if (!this.takesRead && !this.heard(bytes)) socket.pause();
      })
      .write(this.token.subarray(HALF_BYTES));
    this.begin();
    return true;
  }

  private use(socket: Socket): void {
    this.socket = socket
      .unref()
      .on('end', () => {
        this.hasEnded = true;
        this.ended.resolve();
        this.woken();
      })
      .on('error', error => {
        this.opening.reject(error);
        socket.destroy(); // TLS would leave it open, and the other end would wait
      })
      .on('close', () => {
        this.ended.resolve();
        this.opening.reject(new Error('The other end has closed the connection.'));
        if (this.state === 'open') this.lost();
      });
  }

  /** Both ends have shown the token. */
  private begin(): void {
    this.state = 'open';
    const { descriptor } = this;
    const socket = this.socket!;
    socket.allowHalfOpen = true; // a connection that ends before this is useless
    if (descriptor !== undefined && socket.remoteAddress === socket.localAddress) sendUnpaced(descriptor);
    this.opening.resolve();
  }

  /** The listening end answers with its half of the token before anything else. Returns what follows the answer. */
  private check(bytes: Uint8Array): Uint8Array | undefined {
    const missing = HALF_BYTES - this.shown.length;
    this.shown = Buffer.concat([this.shown, bytes.subarray(0, missing)]);
    if (this.shown.length < HALF_BYTES) return undefined;
    if (!timingSafeEqual(this.shown, this.token.subarray(HALF_BYTES))) {
      this.close();
      return undefined;
    }
    this.begin();
    return bytes.subarray(missing);
  }

  /** Bytes have come by the event loop. Returns whether to read on. */
  private heard(bytes: Uint8Array): boolean {
    const data = this.state === 'opening' ? this.check(bytes) : bytes;
    if (data === undefined) return true;
    const isWhole = this.parse(() => this.assembly.feed(data));
    const isMore = this.read(this.readsToEnd ? 'the end' : 'ahead');
    if (isWhole || isMore) this.woken();
    this.isReading = !this.isBroken && (this.readsToEnd || !this.assembly.isFull);
    return this.isReading;
  }

  private readOn(): void {
    this.isReading = true;
    this.socket?.resume();
  }

  protected sendNow(bytes: Uint8Array, more: boolean): number {
    const file = this.descriptor;
    if (file === undefined) return this.write(bytes);
    // Otherwise each bit of free room would be filled at once, with packets as small.
    if (this.socketIsFull && poll([{ file, for: 'room' }], 0) === 0) return 0;
    const count = sendNow(file, bytes, more);
    if (count < 0) this.movesDirectly = false; // the event loop finds out why
    this.socketIsFull = count < bytes.length;
    return Math.max(0, count);
  }

  protected receiveNow(place: Uint8Array): number {
    const readBefore = this.takeRead(place);
    if (readBefore > 0) return readBefore;
    const file = this.descriptor;
    if (file === undefined) return 0;
    const count = receiveNow(file, place);
    if (count < 0) this.movesDirectly = false; // the event loop finds out why
    return Math.max(0, count);
  }

  /** Takes what the event loop had read before it paused: it precedes what the system still has. */
  private takeRead(place: Uint8Array): number {
    const length = Math.min(place.length, this.socket?.readableLength ?? 0);
    if (length === 0) return 0;
    this.takesRead = true;
    const bytes = this.socket!.read(length) as Buffer | null;
    this.takesRead = false;
    if (bytes !== null) copyBytes(place, bytes);
    return bytes?.length ?? 0;
  }

  protected get isFlushed(): boolean {
    return this.socket?.writableLength === 0 && !this.socket.destroyed;
  }

  /** The socket's descriptor, where system calls move the bytes. */
  private get descriptor(): number | undefined {
    return this.movesDirectly && this.state !== 'opening' ? descriptorOf(this.socket) : undefined;
  }

  /** Has the event loop send what is unsent. */
  private handOver(): void {
    for (const bytes of this.unsent.splice(0)) this.write(bytes);
  }

  private write(bytes: Uint8Array): number {
    if (this.socket === undefined || this.socket.destroyed) return 0;
    this.socket.write(bytes, () => this.woken());
    return bytes.length;
  }
}

/**
 * Where a {@link TcpLane} listens. It hands over at most one connection: the first that shows the token.
 */
class Listener {
  private isOver = false;
  /** Connections that have not shown the token yet, by {@link peerOf}. */
  private readonly unverified = new Map<string, Socket>();

  private constructor(
    readonly told: string,
    readonly toldPort: number,
    private readonly server: Server,
    private readonly token: Buffer,
    private readonly admit: (socket: Socket) => boolean,
    isEncrypted: boolean,
  ) {
    server
      .unref()
      .on('connection', (socket: Socket) => this.hold(socket))
      .on(isEncrypted ? 'secureConnection' : 'connection', (socket: Socket) => this.awaitToken(socket))
      .on('error', () => undefined); // one connection could not be accepted
  }

  static async open(
    { host, port, told, publish = async own => own }: LanePlace,
    isEncrypted: boolean,
    token: Buffer,
    admit: (socket: Socket) => boolean,
  ): Promise<Listener> {
    const server = isEncrypted
      ? createTlsServer({ ...SOCKET, ...TLS, pskCallback: () => token })
      : createServer(SOCKET);
    await once(server.listen({ host, port, exclusive: true }), 'listening');
    let toldPort: number;
    try {
      toldPort = await publish((server.address() as AddressInfo).port);
    } catch (error) {
      server.close();
      throw error;
    }
    return new Listener(told, toldPort, server, token, admit, isEncrypted);
  }

  close(): void {
    this.isOver = true;
    this.server.close();
    for (const socket of this.unverified.values()) socket.destroy();
    this.unverified.clear();
  }

  /** A new connection has some time to show the token. */
  private hold(socket: Socket): void {
    const peer = peerOf(socket);
    if (this.unverified.size === MAX_UNVERIFIED) {
      const [[oldest, displaced]] = this.unverified as unknown as [[string, Socket]];
      this.unverified.delete(oldest);
      displaced.destroy();
    }
    this.unverified.set(peer, socket);
    const forget = () => this.unverified.get(peer) === socket && this.unverified.delete(peer);
    setTimeout(() => forget() && socket.destroy(), PROOF_MS).unref();
    socket.unref().on('close', forget);
  }

  private awaitToken(socket: Socket): void {
    let shown = Buffer.alloc(0);
    const onData = (bytes: Buffer) => {
      shown = Buffer.concat([shown, bytes]);
      if (shown.length < HALF_BYTES) return;
      socket.off('data', onData);
      // The other end sends nothing more before it gets the answer.
      const isRight = shown.length === HALF_BYTES && timingSafeEqual(shown, this.token.subarray(0, HALF_BYTES));
      if (!isRight || this.isOver) return void socket.destroy();
      this.unverified.delete(peerOf(socket));
      this.close();
      if (!this.admit(socket)) socket.destroy();
    };
    socket
      .unref()
      .on('error', () => socket.destroy()) // TLS would leave it open
      .on('data', onData);
  }
}

/** The descriptor of a socket that is open. Node has no public way to it. */
function descriptorOf(socket: Socket | undefined): number | undefined {
  const { fd } = (socket as unknown as { _handle?: { fd?: number } | null })?._handle ?? {};
  return fd !== undefined && fd >= 0 ? fd : undefined;
}

/** Where a connection comes from: the same before and after its TLS handshake. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
