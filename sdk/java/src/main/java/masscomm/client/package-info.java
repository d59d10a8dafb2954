/**
 * A client of masscomm's REST API. {@link masscomm.client.Client} has a method for each route, {@link
 * masscomm.client.Types} the bodies of requests and responses, and {@link masscomm.client.Webhooks} verifies webhooks.
 */
package masscomm.client;
