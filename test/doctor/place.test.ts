import { placeFinding } from '../../src/doctor/place';
import { SLURM } from '../environment/schedulers';

const NO_HOME = { HOME: '/no/home' };

test.each<[string, NodeJS.ProcessEnv, string, RegExp]>([
  ['alone', {}, 'ok', /^alone: neither a scheduler nor RANK/],
  ['a rank', { RANK: '1', WORLD_SIZE: '2' }, 'ok', /^rank 1 of 2, says RANK and WORLD_SIZE/],
  ['a task', { ...SLURM, ...NO_HOME }, 'ok', /^rank 2 of 3, says Slurm; the ranks meet at n1, port 2\d{4}$/],
  ['a task with an old RANK', { ...SLURM, RANK: '0', WORLD_SIZE: '1' }, 'warning', /but Slurm has started several/],
  [
    'a rank without a token',
    { RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '10.9.9.9' },
    'problem',
    /need the same run token/,
  ],
  ['a rank without a world', { RANK: '0' }, 'problem', /WORLD_SIZE is not/],
])('the place of %s', (_, env, verdict, words) => {
  expect(placeFinding(env)).toMatchObject({ what: 'Place', verdict, words: expect.stringMatching(words) as string });
});
