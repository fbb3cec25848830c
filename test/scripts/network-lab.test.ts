// What of the network lab needs neither root nor Linux.

interface Shape {
  readonly burstBytes: number;
  readonly limitBytes: number;
}
interface Route {
  readonly dst: string;
  readonly dev?: string;
}
interface Subnet {
  readonly text: string;
  readonly prefix: string;
}

const { parseRate, shapeOf } = jest.requireActual<{
  parseRate(text: string): number | undefined;
  shapeOf(bitsPerSecond: number): Shape;
}>('../../scripts/network-lab/rate');
const { freeSubnet, parseSubnet, requireFree } = jest.requireActual<{
  freeSubnet(routes: Route[]): Subnet;
  parseSubnet(text: string): Subnet;
  requireFree(subnet: Subnet, routes: Route[]): void;
}>('../../scripts/network-lab/subnet');
const { MAX_RANKS, rankName, requireLabName } = jest.requireActual<{
  MAX_RANKS: number;
  rankName(lab: string, rank: number): string;
  requireLabName(lab: string): void;
}>('../../scripts/network-lab/names');
const { requireHost } = jest.requireActual<{ requireHost(): void }>('../../scripts/network-lab/host');

describe('rates', () => {
  test.each([
    ['100kbit', 1e5],
    ['10mbit', 1e7],
    ['2.5gbit', 2.5e9],
    ['none', undefined],
  ])('%s', (text, bitsPerSecond) => expect(parseRate(text)).toBe(bitsPerSecond));

  test.each(['', '1', 'gbit', '1gbps', '1 gbit', '-1mbit', '0mbit', '1kbit', '200gbit', '1GBIT', '1e3mbit'])(
    "'%s' is none",
    text => expect(() => parseRate(text)).toThrow(`--rate is '${text}'`),
  );

  test('a burst lasts 1 ms, or is three frames', () => {
    expect(shapeOf(1e9)).toMatchObject({ burstBytes: 125_000, limitBytes: 6_250_000 });
    expect(shapeOf(1e7)).toMatchObject({ burstBytes: 4_542, limitBytes: 262_144 });
  });
});

describe('subnets', () => {
  const routes = [
    { dst: 'default', dev: 'eth0' },
    { dst: '10.77.0.0/24', dev: 'nl-a' },
    { dst: '10.77.1.7', dev: 'tun0' },
    { dst: '10.77.2.128/25', dev: 'tun0' },
    { dst: '192.168.0.0/16', dev: 'eth0' },
  ];

  test('the first that no route overlaps is free', () => {
    expect(freeSubnet([])).toEqual({ text: '10.77.0.0/24', prefix: '10.77.0.' });
    expect(freeSubnet(routes).text).toBe('10.77.3.0/24');
    expect(() => freeSubnet([{ dst: '10.0.0.0/8' }])).toThrow('no 10.77.x.0/24 is free');
  });

  test('one that a route overlaps is refused', () => {
    requireFree(parseSubnet('172.16.5.0/24'), routes);
    expect(() => requireFree(parseSubnet('10.77.0.0/24'), routes)).toThrow('in use by interface nl-a');
    expect(() => requireFree(parseSubnet('192.168.9.0/24'), routes)).toThrow('route to 192.168.0.0/16');
  });

  test.each(['10.77.0.0', '10.77.0.0/16', '10.77.0.1/24', '10.777.0.0/24', 'fd00::/64'])('%s is none', text =>
    expect(() => parseSubnet(text)).toThrow(`--subnet is '${text}'`),
  );
});

test('the longest names fit an interface', () => {
  requireLabName('abcdefg8');
  expect(rankName('abcdefg8', MAX_RANKS - 1)).toHaveLength(15); // IFNAMSIZ less the end
  for (const name of ['', 'abcdefgh9', '1a', 'A', 'a-1', 'a/b', '..'])
    expect(() => requireLabName(name)).toThrow('is no valid name for a lab');
});

describe('a host that can have no lab', () => {
  const { platform } = process;
  afterEach(() => {
    Object.defineProperty(process, 'platform', { value: platform });
    jest.restoreAllMocks();
  });

  test('for want of root', () => {
    Object.defineProperty(process, 'platform', { value: 'linux' });
    process.getuid ??= () => 0; // Windows
    jest.spyOn(process, 'getuid').mockReturnValue(1000);
    expect(requireHost).toThrow('only root');
  });

  test('for want of Linux', () => {
    Object.defineProperty(process, 'platform', { value: 'darwin' });
    expect(requireHost).toThrow('needs the network namespaces of Linux');
  });
});
