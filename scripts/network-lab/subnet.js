const { LabError } = require('./lab-error');

/**
 * `{ text, prefix }`, such as `{ text: '10.77.0.0/24', prefix: '10.77.0.' }`. Ranks have .1 and up, the bridge .254.
 */
function parseSubnet(text) {
  const match = /^(\d{1,3}\.\d{1,3}\.\d{1,3}\.)0\/24$/.exec(text);
  if (match === null || !match[1].split('.').every(part => Number(part) <= 255)) {
    throw new LabError(`--subnet is '${text}'; it must be an IPv4 network of 256 addresses, such as 10.77.0.0/24.`);
  }
  return { text, prefix: match[1] };
}

/**
 * The first 10.77.x.0/24 that overlaps no route of the host.
 *
 * @param routes The output of `ip -json route`.
 * @throws LabError if there is none.
 */
function freeSubnet(routes) {
  for (let third = 0; third < 256; third += 1) {
    const subnet = parseSubnet(`10.77.${third}.0/24`);
    if (overlapping(subnet, routes) === undefined) return subnet;
  }
  throw new LabError('no 10.77.x.0/24 is free on this host: choose another network with --subnet.');
}

/** @throws LabError if a route of the host overlaps the subnet. */
function requireFree(subnet, routes) {
  const route = overlapping(subnet, routes);
  if (route === undefined) return;
  const where = route.dev === undefined ? '' : ` by interface ${route.dev}`;
  throw new LabError(
    `${subnet.text} is in use${where} (route to ${route.dst}): choose another --subnet, or leave it out.`,
  );
}

function overlapping(subnet, routes) {
  const [first, last] = range(subnet.text);
  return routes.find(({ dst }) => {
    if (dst === 'default') return false;
    const [routeFirst, routeLast] = range(dst);
    return routeFirst <= last && first <= routeLast;
  });
}

/** The first and the last address of a network, or of a single address, as numbers. */
function range(network) {
  const [address, bits = '32'] = network.split('/');
  const number = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
  const size = 2 ** (32 - Number(bits));
  const first = Math.floor(number / size) * size;
  return [first, first + size - 1];
}

module.exports = { parseSubnet, freeSubnet, requireFree };
