/**
 * The numbers from 0 to count − 1 in a random order (Fisher and Yates).
 *
 * @param {number} count
 * @param {() => number} random From 0 up to but not including 1.
 * @returns {Int32Array}
 */
function shuffled(count, random) {
  const order = Int32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const other = Math.floor(random() * (i + 1));
    [order[i], order[other]] = [order[other], order[i]];
  }
  return order;
}

module.exports = { shuffled };
