const { decodeRendezvousMessage, encodeRendezvousMessage } = require('../../dist/wire/rendezvous-message');
const { isCount } = require('./payload-checker');
const { demand, refusalOf } = require('./refusal');
const { MESSAGES } = require('./rendezvous-messages');

/** What each kind holds: whole numbers up to a bound, or texts, of which there can be no more than bytes. */
const FIELDS = {
  join: {
    ...{ protocolVersion: 255, runId: 'text', worldSize: 0xffffffff, rank: 0xffffffff, hostId: 'text' },
    ...{ encryption: 'text', publicKey: 'text', newcomer: 'boolean', admits: 'boolean', patienceMs: 0xffffffff },
  },
  roster: { hostIds: 'texts', publicKeys: 'texts', members: 'numbers', generation: 0xffffffff },
  listening: { rank: 0xffffffff, endpoint: 'text' },
  start: { ringId: 'bigint', endpoints: 'texts' },
  standing: { rank: 0xffffffff, lanes: 'boolean' },
  formed: { lanes: 'boolean' },
  leave: { rank: 0xffffffff },
  ask: { rank: 0xffffffff },
  waiting: { count: 0xffffffff },
  refuse: { code: 'text', message: 'text' },
};

/** Messages of the rendezvous. @type {import('./fuzz').Target} */
const rendezvousTarget = {
  name: 'rendezvous',
  seeds: () => MESSAGES.map(message => ({ bytes: encodeRendezvousMessage(message) })),
  run: bytes => {
    let message;
    try {
      message = decodeRendezvousMessage(bytes);
    } catch (error) {
      return { outcome: refusalOf(error) };
    }
    const fields = Object.entries(FIELDS[message.kind] ?? {});
    demand(fields.length > 0, 'The kind does not exist.');
    for (const [name, type] of fields)
      demand(isSane(message[name], type, bytes.length), `${name} is ${message[name]}.`);
    return { outcome: `accepted: ${message.kind}` };
  },
};

function isSane(value, type, byteCount) {
  if (typeof type === 'number') return isCount(value, type);
  if (type === 'text') return typeof value === 'string' && value.length <= byteCount;
  if (type === 'texts')
    return Array.isArray(value) && 4 * value.length <= byteCount && isSane(value.join(''), 'text', byteCount);
  if (type === 'numbers')
    return Array.isArray(value) && 4 * value.length <= byteCount && value.every(each => isCount(each, 0xffffffff));
  return typeof value === type;
}

module.exports = { rendezvousTarget };
