import { middleOf } from '../../src/launcher/member-states';

test.each([
  ['the later one of two', [1, 2], [0, 1, 2, 3], 2],
  ['the last and the first are beside each other', [0, 3], [0, 1, 2, 3], 0],
  ['the one in the middle of three', [1, 2, 3], [0, 1, 2, 3, 4], 2],
  ['also around the end', [0, 1, 4], [0, 1, 2, 3, 4], 0],
  ['numbers of members that are lost are left out', [2, 5, 7], [0, 2, 5, 7, 8], 5],
  ['of two gaps the first', [1, 2, 5, 6], [0, 1, 2, 3, 4, 5, 6], 2],
  ['of all any one', [0, 1, 2], [0, 1, 2], 1],
  ['of one that one', [3], [0, 3], 3],
])('of members that are not connected, %s', (_, unconnected, ring, expected) => {
  expect(middleOf(unconnected, ring)).toBe(expected);
});
