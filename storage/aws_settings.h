// Where S3 is and who asks: from the environment and the profile files, as the tools of AWS read them. Private to the
// S3 store.
#pragma once
#include <string>

namespace cuboid {

struct AwsSettings {
  std::string key_id, secret, token;  // empty: requests are not signed
  std::string region = "us-east-1";
  std::string endpoint;  // empty: Amazon's; else buckets are parts of its path
};

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; else the profile (AWS_PROFILE or "default") in
// AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and AWS_CONFIG_FILE (~/.aws/config). AWS_REGION or
// AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else the profile's region and endpoint_url. Secrets go
// into no message.
AwsSettings aws_settings();

}  // namespace cuboid
