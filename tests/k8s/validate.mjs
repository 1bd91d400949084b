// Custom resources against the schemas of their own projects: JSON lines on stdin; a line per resource that is not valid.
import { createInterface } from "node:readline";

const PACKAGES = {
  "gateway.networking.k8s.io": "gateway-api",
  "keda.sh": "keda",
  "monitoring.coreos.com": "prometheus-operator",
};

for await (const line of createInterface({ input: process.stdin })) {
  const resource = JSON.parse(line);
  const [group, version] = resource.apiVersion.split("/");
  const folder = `${process.env.CUSTOM_RESOURCES}/node_modules/@kubernetes-models/${PACKAGES[group]}`;
  const { [resource.kind]: Model } = await import(`${folder}/${group}/${version}/${resource.kind}.js`);
  try {
    new Model(resource).validate();
  } catch (error) {
    console.log(`${resource.kind} ${resource.metadata.name}: ${error.message}`);
  }
}
