/**
 * The program of a rank that says who it is, and the sum of the ranks' numbers, to show that they are one ring.
 *
 * @param gradring Where it finds gradring.
 * @param elementCount Of the array that is summed.
 */
export function whoProgram(gradring: string, elementCount: number): string {
  return `
const { connect } = require(${JSON.stringify(gradring)});
(async () => {
  const ring = await connect();
  const sum = await ring.allReduce(new Float32Array(${elementCount}).fill(ring.rank));
  console.log('rank ' + ring.rank + ' of ' + ring.worldSize + ', sum ' + sum[0]);
  await ring.close();
})().catch(error => {
  console.error(error.code, error.message);
  process.exitCode = 1;
});
`;
}
