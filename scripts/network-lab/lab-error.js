/** An error that the user can correct. Its message is shown without a stack. */
class LabError extends Error {}

module.exports = { LabError };
