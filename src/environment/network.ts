import { isIP } from 'node:net';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { GradringError } from '../errors';

/** The TCP ports from the first to the last. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** The largest TCP port. */
export const MAX_PORT = 65_535;

/** The ports of a text such as `30000-30100`. Undefined if the text is not a range of ports. */
export function portRangeOf(text: string): PortRange | undefined {
  const [first, last] = /^(\d{1,5})-(\d{1,5})$/.exec(text)?.slice(1).map(Number) ?? [];
  return first! >= 1 && first! <= last! && last! <= MAX_PORT ? { first: first!, last: last! } : undefined;
}

/**
 * The address of a network interface of this host: the preferred one, if the interface has it, else
 * {@link addressForOthers}, or that of a loopback interface.
 */
export function addressOfInterface(name: string, preferred?: string): string | undefined {
  const all = networkInterfaces();
  const addresses = (Object.hasOwn(all, name) && all[name]) || [];
  if (preferred !== undefined && addresses.some(({ address }) => address === preferred)) return preferred;
  return addressForOthers(addresses) ?? addresses.find(({ internal }) => internal)?.address;
}

/**
 * The first address that other hosts can reach, IPv4 if there is one. Link-local IPv6 addresses do not count, because
 * they need the name of the peer's interface.
 */
export function addressForOthers(addresses: readonly NetworkInterfaceInfo[]): string | undefined {
  const outer = addresses.filter(({ internal, address }) => !internal && !isLinkLocal(address));
  return (outer.find(({ family }) => family === 'IPv4') ?? outer[0])?.address;
}

/** Whether an address is IPv6 for one link only. Each host needs the name of one of its own interfaces to use it. */
export function isLinkLocal(address: string): boolean {
  return isIP(address) === 6 && /^fe[89ab]/i.test(address);
}

/** Whether an address reaches only this host. It may be IPv4 written as IPv6. */
export function isLoopback(address: string): boolean {
  return (
    address === 'localhost' || address === '::1' || (isIP(address) !== 0 && /^(::ffff:)?127\.[\d.]+$/.test(address))
  );
}

/**
 * Checks that this host reaches itself. Where the loopback interface is down, as in a new network namespace, a program
 * can listen at 127.0.0.1, but nobody can connect to it.
 *
 * @throws GradringError `ERR_LOOPBACK_DOWN`
 */
export function requireLoopback(): void {
  const isUp = Object.values(networkInterfaces()).some(addresses => addresses?.some(({ internal }) => internal));
  if (isUp) return;
  const words =
    'The loopback interface of this host is down. Ranks of one host meet there. Run `ip link set lo up` as root, in the network namespace of this process.';
  throw new GradringError('ERR_LOOPBACK_DOWN', words);
}

/** An address without the brackets in which URLs put IPv6. */
export function withoutBrackets(address: string): string {
  return address.replace(/^\[(.*)\]$/, '$1');
}

/**
 * What a setting of the network must be, to follow "it must be" in an error. Undefined if the text is right, as far as
 * this host knows.
 */
export const NETWORK_FAULTS = {
  iface: text => {
    if (addressOfInterface(text) !== undefined) return undefined;
    const names = Object.keys(networkInterfaces()).filter(name => addressOfInterface(name) !== undefined);
    return `a network interface of this host that has an address: ${names.join(', ') || 'there is none'}`;
  },
  portRange: text =>
    portRangeOf(text) === undefined ? `the first and the last port, such as 30000-30100 (1 to ${MAX_PORT})` : undefined,
  advertiseAddr: text => {
    const address = withoutBrackets(text);
    const isReached =
      isIP(address) !== 0 && !isLoopback(address) && !['0.0.0.0', '::'].includes(address) && !isLinkLocal(address);
    return isReached ? undefined : 'an IP address at which other hosts reach this one';
  },
} as const satisfies Record<string, (text: string) => string | undefined>;
