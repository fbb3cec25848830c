import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { Purpose } from '../../src/wire/frame';
import { turns } from '../support/lanes';
import { until } from '../support/rings';
import { runnerOf } from '../support/runners';
import { openTransports } from '../support/transports';

afterAll(closeAllSockets);

test.each([2, 3, 4, 7])(
  'a barrier of %i ranks holds all until the last has come, whichever that is',
  async worldSize => {
    const { ring, close } = await openTransports(worldSize);
    const runners = ring.map(transport => runnerOf(transport).runner);
    for (const late of ring.keys()) {
      const before = ring.map(({ observer }) => observer.read('bytesSent'));
      const passed: number[] = [];
      const pass = async (rank: number) => {
        await runners[rank]!.run('barrier', { purpose: Purpose.Call });
        passed.push(rank);
      };
      const others = [...ring.keys()].filter(rank => rank !== late);
      const waiting = others.map(pass);
      await until(() => others.every(rank => ring[rank]!.observer.read('bytesSent') > before[rank]!));
      await turns(100); // in which all that can travel does
      expect(passed).toEqual([]);
      await Promise.all([...waiting, pass(late)]);
      expect(passed).toHaveLength(worldSize);
    }
    await close();
  },
);
