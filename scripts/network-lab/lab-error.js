/** What the user can set right: its message is shown without a stack. */
class LabError extends Error {}

module.exports = { LabError };
