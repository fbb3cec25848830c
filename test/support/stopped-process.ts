/** As if this process had been stopped for so long: the clock has gone on, and no timer has fired. */
export function beStoppedFor(ms: number): void {
  const { now } = performance;
  const before = jest.isMockFunction(now) ? now.getMockImplementation()! : now.bind(performance);
  jest.spyOn(performance, 'now').mockImplementation(() => (before() as number) + ms);
}
