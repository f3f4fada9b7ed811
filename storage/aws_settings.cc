#include "storage/aws_settings.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <vector>

#include "storage/error.h"

namespace cuboid {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string file_of(const char* variable, const char* name) {
  if (std::string path = environment(variable); !path.empty()) return path;
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.aws/" + name;
}

// The keys of one section of an INI file, of those that stand at the beginning of a line; none where there is no file.
std::map<std::string, std::string> section_of(const std::string& path, const std::vector<std::string>& titles) {
  std::map<std::string, std::string> keys;
  std::ifstream file(path);
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    const std::string text = trimmed(line);
    if (text.empty() || text[0] == '#' || text[0] == ';') continue;
    if (text[0] == '[') {
      const std::string title = trimmed(text.substr(1, text.find(']') - 1));
      inside = std::find(titles.begin(), titles.end(), title) != titles.end();
      continue;
    }
    const std::size_t equals = text.find('=');
    if (!inside || equals == std::string::npos || line[0] == ' ' || line[0] == '\t') continue;
    keys[trimmed(text.substr(0, equals))] = trimmed(text.substr(equals + 1));
  }
  return keys;
}

}  // namespace

AwsSettings aws_settings() {
  const std::string stated = environment("AWS_PROFILE");
  const std::string profile = stated.empty() ? "default" : stated;
  auto keys = section_of(file_of("AWS_CONFIG_FILE", "config"),
                         {"profile " + profile, profile == "default" ? "default" : "profile " + profile});
  const auto credentials = section_of(file_of("AWS_SHARED_CREDENTIALS_FILE", "credentials"), {profile});
  for (const auto& [key, value] : credentials) keys[key] = value;
  if (!stated.empty() && keys.empty())
    throw Error(ErrorKind::invalid,
                "AWS_PROFILE is '" + stated + "', and neither ~/.aws/credentials nor ~/.aws/config has that profile");

  AwsSettings settings;
  settings.key_id = environment("AWS_ACCESS_KEY_ID");
  if (!settings.key_id.empty()) {
    settings.secret = environment("AWS_SECRET_ACCESS_KEY");
    settings.token = environment("AWS_SESSION_TOKEN");
  } else {
    settings.key_id = keys["aws_access_key_id"];
    settings.secret = keys["aws_secret_access_key"];
    settings.token = keys["aws_session_token"];
  }
  if (!settings.key_id.empty() && settings.secret.empty())
    throw Error(ErrorKind::invalid, "there is an AWS access key id, but no secret for it: set AWS_SECRET_ACCESS_KEY");
  for (std::string region : {environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"), keys["region"]}) {
    if (region.empty()) continue;
    settings.region = region;
    break;
  }
  for (std::string endpoint :
       {environment("AWS_ENDPOINT_URL_S3"), environment("AWS_ENDPOINT_URL"), keys["endpoint_url"]}) {
    if (endpoint.empty()) continue;
    while (endpoint.ends_with('/')) endpoint.pop_back();
    settings.endpoint = endpoint;
    break;
  }
  return settings;
}

}  // namespace cuboid
