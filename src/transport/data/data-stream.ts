import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import type { Offer } from '../../wire/frame';
import { Carrier } from './carrier';
import { deferred } from '../deferred';
import { HEAD_BYTES } from './frame-assembly';
import { closed, opened } from '../control/open-sockets';
import { type Asked, hasSystemCalls, poll, receiveNow, sendNow, sendUnpaced } from './system-calls';
import type { Medium } from '../transport';

const TOKEN_BYTES = 32;

/** Who connects must have shown the token by then, in ms. */
const TOKEN_MS = 10_000;

/** So many connections that have shown no token yet are held at most. */
const MAX_STRANGERS = 64;

/** Of a neighbour that has left, so long for the first that it sent, if it sent anything. */
const FIRST_WORD_MS = 2000;

/** The event loop reads so much at a time. Where the system's calls can be used it reads a head, and they the rest. */
const BUFFER_BYTES = 64 * 1024;

/** As the transport's own heartbeats: what lies between two hosts forgets connections on which nothing goes. */
const KEEP_ALIVE_MS = 10_000;

/**
 * The token is the key, which only the other end of the link has, so there are no certificates. Node takes such keys up
 * to this version of TLS.
 */
const TLS = {
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
  ciphers: 'PSK-AES256-GCM-SHA384:PSK-CHACHA20-POLY1305',
} as const;

/**
 * Carries frames of data between hosts over two TCP connections beside the link, one each way. ZeroMQ would hand each
 * frame from thread to thread and copy it once more; here it is read to where it is used, by the thread that uses it.
 *
 * `node:net` makes the connections and tells of their end. Bytes go by the system's own calls, and by it only where it
 * has to wait for them, or those calls cannot be used. Beside a link that is encrypted all bytes go by `node:tls`.
 *
 * Each end listens for who is to receive from it, and tells where in its greeting, and the token, which the link keeps
 * as secret as the data.
 */
export class DataStream extends Carrier {
  readonly offer: Offer;
  private letsNobodyIn = false;
  private outgoing: Socket | undefined;
  private incoming: Socket | undefined;
  /** Who has shown no token yet, by {@link peerOf}. */
  private readonly strangers = new Map<string, Socket>();
  /** Whether the kernel had no more room for what was sent last. */
  private socketIsFull = false;
  private readonly ended = deferred();
  /** Whether anything has come yet. */
  private hasCome = false;
  private isReading = true;
  /** Whether the other end sends no more, and all that it has sent is to be read. */
  private readsToEnd = false;
  /** Whether this end sends no more. */
  private hasLeft = false;
  /** Until that fails: the event loop finds out why. */
  private receivesDirectly: boolean;
  private sendsDirectly: boolean;

  private constructor(
    private readonly server: Server,
    private readonly token: Buffer,
    private readonly isEncrypted: boolean,
    host: string,
  ) {
    super();
    opened(this);
    const { port } = server.address() as AddressInfo;
    this.offer = { host, port, token: token.toString('hex') };
    this.receivesDirectly = this.sendsDirectly = !isEncrypted && hasSystemCalls();
    server.maxConnections = MAX_STRANGERS;
    server
      .unref()
      .on('connection', (socket: Socket) => this.hearOut(socket))
      .on(isEncrypted ? 'secureConnection' : 'connection', (socket: Socket) => this.admit(socket))
      .on('error', () => undefined); // one connection could not be accepted
  }

  /**
   * Listens at an address of this host. Undefined where that cannot be: all goes by the link then.
   *
   * @param isEncrypted The same at both ends.
   */
  static async listen(host: string, isEncrypted: boolean): Promise<DataStream | undefined> {
    const token = randomBytes(TOKEN_BYTES);
    const options = { noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS };
    try {
      const server = isEncrypted
        ? createTlsServer({ ...options, ...TLS, pskCallback: () => token })
        : createServer(options);
      await once(server.listen(0, host), 'listening');
      return new DataStream(server, token, isEncrypted, host);
    } catch {
      return undefined;
    }
  }

  get medium(): Medium {
    return this.isEncrypted ? 'tcp-stream-encrypted' : 'tcp-stream';
  }

  get canSend(): boolean {
    return this.outgoing !== undefined;
  }

  get canReceive(): boolean {
    return this.hasCome;
  }

  /** Connects to where the neighbour listens. If that fails, nothing ever comes this way. */
  meet({ host, port, token }: Offer): void {
    if (this.incoming !== undefined) return;
    const onread = {
      buffer: Buffer.alloc(this.receivesDirectly ? HEAD_BYTES : BUFFER_BYTES),
      callback: (count: number, bytes: Uint8Array) => this.heard(bytes.subarray(0, count)),
    };
    const place = { host, port, onread };
    const shown = Buffer.from(token, 'hex');
    const key = { pskCallback: () => ({ psk: shown, identity: 'gradring' }), checkServerIdentity: () => undefined };
    const incoming = this.isEncrypted ? connectTls({ ...TLS, ...key, ...place }) : connect(place);
    incoming
      .setKeepAlive(true, KEEP_ALIVE_MS)
      .unref()
      .on('end', () => this.ended.resolve())
      .on('close', () => this.ended.resolve())
      .on('error', () => {
        incoming.destroy(); // TLS would leave it open, and the other end would wait
        if (this.hasCome) this.onLost();
      });
    incoming.write(shown);
    this.incoming = incoming;
  }

  asked(forRoom: boolean): readonly Asked[] {
    const asked: Asked[] = [];
    const [incoming, outgoing] = [this.directIncoming, this.directOutgoing];
    const takes = this.broken === undefined && !this.assembly.isFull;
    if (incoming !== undefined && takes) asked.push({ file: incoming, for: 'input' });
    if (outgoing !== undefined && forRoom && this.unsent.length > 0) asked.push({ file: outgoing, for: 'room' });
    return asked;
  }

  get isDirect(): boolean {
    return this.receivesDirectly && this.sendsDirectly;
  }

  sleep(forRoom: boolean, where: 'poll' | 'event loop'): void {
    if (where === 'poll') return;
    if (forRoom) this.handOver();
    if (!this.isReading && !this.assembly.isFull) this.readOn();
  }

  finish(): void {
    this.hasLeft = true;
    this.letNobodyElseIn();
    this.handOver();
    this.outgoing?.end();
  }

  otherFinished(): Promise<void> {
    this.readsToEnd = true;
    if (this.incoming === undefined || this.incoming.connecting) this.ended.resolve();
    else this.readOn();
    // What never came may have been sent to somebody who stands between, and never passed on.
    if (!this.hasCome) setTimeout(() => this.ended.resolve(), FIRST_WORD_MS).unref();
    return this.ended.promise;
  }

  close(): void {
    this.hasLeft = true;
    closed(this);
    this.letNobodyElseIn();
    this.outgoing?.destroy();
    this.incoming?.destroy();
  }

  /** Somebody has connected, and has a while to show the token. */
  private hearOut(socket: Socket): void {
    const peer = peerOf(socket);
    this.strangers.set(peer, socket);
    const forget = () => this.strangers.get(peer) === socket && this.strangers.delete(peer);
    setTimeout(() => forget() && socket.destroy(), TOKEN_MS).unref();
    socket.unref().on('close', forget);
  }

  /** Lets in who shows the token, and nobody after that. */
  private admit(socket: Socket): void {
    let shown = Buffer.alloc(0);
    socket
      .unref()
      .on('error', () => socket.destroy()) // TLS would leave it open
      .on('close', () => {
        if (socket === this.outgoing && !this.hasLeft) this.onLost();
      })
      .on('data', bytes => {
        if (socket === this.outgoing) return; // the other end has nothing to say
        shown = Buffer.concat([shown, bytes]);
        if (shown.length < TOKEN_BYTES) return;
        if (shown.length > TOKEN_BYTES || !timingSafeEqual(shown, this.token) || this.letsNobodyIn) {
          socket.destroy();
          return;
        }
        this.strangers.delete(peerOf(socket));
        this.letNobodyElseIn();
        this.outgoing = socket;
        const file = hasSystemCalls() ? descriptorOf(socket) : undefined;
        if (file !== undefined && socket.remoteAddress === socket.localAddress) sendUnpaced(file);
      });
  }

  private letNobodyElseIn(): void {
    this.letsNobodyIn = true;
    this.server.close();
    for (const socket of this.strangers.values()) socket.destroy();
    this.strangers.clear();
  }

  private readOn(): void {
    this.isReading = true;
    this.incoming?.resume();
  }

  protected sendNow(bytes: Uint8Array, more: boolean): number {
    const file = this.directOutgoing;
    if (file === undefined) return this.write(bytes);
    // Else all that is free would be filled at once, however little that is, by packets as small.
    if (this.socketIsFull && poll([{ file, for: 'room' }], 0) === 0) return 0;
    const count = sendNow(file, bytes, more);
    if (count < 0) this.sendsDirectly = false;
    this.socketIsFull = count < bytes.length;
    return Math.max(0, count);
  }

  protected receiveNow(place: Uint8Array): number {
    const file = this.directIncoming;
    if (file === undefined) return 0;
    const count = receiveNow(file, place);
    if (count < 0) this.receivesDirectly = false;
    return Math.max(0, count);
  }

  protected get isFlushed(): boolean {
    return this.outgoing?.writableLength === 0 && !this.outgoing.destroyed;
  }

  /** Descriptors to be used without the event loop. */
  private get directIncoming(): number | undefined {
    return this.receivesDirectly && this.hasCome ? descriptorOf(this.incoming) : undefined;
  }

  private get directOutgoing(): number | undefined {
    return this.sendsDirectly ? descriptorOf(this.outgoing) : undefined;
  }

  /** Bytes have come by the event loop. Returns whether to read on. */
  private heard(bytes: Uint8Array): boolean {
    this.hasCome = true;
    try {
      let isWhole = this.parse(() => this.assembly.feed(bytes));
      isWhole = this.read(this.readsToEnd ? 'the end' : 'ahead') || isWhole;
      if (isWhole) this.onWake();
      this.isReading = this.readsToEnd || !this.assembly.isFull;
      return this.isReading;
    } catch {
      this.onWake(); // who takes the next frame is told
      this.isReading = false;
      return false;
    }
  }

  /** Has the event loop send what is unsent. */
  private handOver(): void {
    for (const bytes of this.unsent.splice(0)) this.write(bytes);
  }

  private write(bytes: Uint8Array): number {
    if (this.outgoing === undefined || this.outgoing.destroyed) return 0;
    this.outgoing.write(bytes, () => this.onWake());
    return bytes.length;
  }
}

/** Of a socket that is open. */
function descriptorOf(socket: Socket | undefined): number | undefined {
  const { fd } = (socket as unknown as { _handle?: { fd?: number } | null })?._handle ?? {};
  return fd !== undefined && fd >= 0 ? fd : undefined;
}

/** Where a connection comes from. Encrypted or not, it is known by that. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
