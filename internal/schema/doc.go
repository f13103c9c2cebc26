// Package schema owns JSON Schema: it compiles the schemas that upstreams
// send with their tools, checks arguments against them, and reads the
// x-mcp-header annotations in them.
//
// Schemas and arguments are both foreign. The package therefore promises that
// neither can make it load anything, panic, or work without bound:
//
//   - nothing is ever fetched; a $ref that leaves the document is an error;
//   - a schema has at most 1 MiB, 10,000 objects, 200 levels, and 64
//     applications of one subschema inside another to the same value;
//   - arguments have at most 1,000 levels, and numbers of at most 1,000
//     characters and exponents up to 1,000;
//   - before arguments are validated the work is estimated by walking schema
//     and arguments together; above 300,000 units (about one per subschema
//     applied to a value, more for deep values, long enums and patterns) they
//     are refused with a fault that says so.
//
// Validation reports every fault it finds, in a fixed order, at most 50. A
// compiled Schema is immutable and safe for concurrent use.
//
// The package does not cache: owners of many schemas keep a Lazy for each.
// It never changes arguments, fills in no defaults, coerces nothing.
package schema
