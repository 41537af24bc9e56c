"""What a person must allow in containers, clouds, databases, backups and other services: what deletes, replaces or stops something."""

from typing import Final

from melete.security.rules import Rule

GONE = "deletes or stops something that others may need"
DRY = "--dry-run* --dryrun --help"
SQL = (
    r"(?is)\bdrop\s+(?:table|database|schema|index|view|user|role|keyspace|collection|column|function|trigger|sequence|owned|tablespace|type|materialized)\b"
    r"|\btruncate\s+(?:table\s+)?[\w.\"`]+|\bdelete\s+from\s+[\w.\"`\[\]]+\s*(?:;|$|\n|\bwhere\s+(?:1|true|'1')\b)"
    r"|\bupdate\s+[\w.\"`]+\s+set\b(?!.{0,500}\bwhere\b)|\balter\s+table\b.{0,100}?\b(?:drop|delete|truncate)\b|\bgrant\s+all\b|\brevoke\s+\w+.{0,60}?\bfrom\b|\balter\s+(?:system|database)\b|\bset\s+global\b|\bpg_(?:terminate|cancel)_backend\b|\bpurge\s+(?:binary|master)\b|\bload\s+data\b|\bdrop\s+(?:if\s+exists|publication|subscription|extension|server|policy)\b|\bflush\s+privileges\b|\bdetach\s+delete\b|\balter\s+(?:user|role)\b|\bcreate\s+(?:user|role)\b"
    r"|\bxp_cmdshell\b|\binto\s+(?:out|dump)file\b|\bcopy\b.{0,300}?\b(?:to|from)\s+program\b|\bload_file\s*\(|\bload_extension\b|\bshutdown\b|\bkill\s+\d"
    r"|\bvacuum\s+into\b|\bdrop\b\s+\S+\s*;|\\!|\bwritefile\s*\(|\bdetach\s+partition\b|\bpg_read_file\b|\breset\s+(?:master|slave)\b|^\.(?:shell|system|import|output|restore)\b"
)
MONGO = r"(?i)dropDatabase|\.drop(?:Index\w*|User|Role)?\s*\(|deleteMany\s*\(\s*(?:\{\s*\})?|\.remove\s*\(\s*(?:\{\s*\})?|shutdownServer|deleteOne|findOneAndDelete|updateMany\s*\(\s*\{\s*\}|_drop\w*\s*\(|renameCollection|\bshutdown\s*[:(]|stepDown|replSetReconfig|rs\.(?:remove|reconfig)|createUser|grantRoles|removeShard"

TOOLS: Final[tuple[Rule, ...]] = (
    Rule(id="containers", programs="docker podman nerdctl", reason="removes or stops containers, images, networks or volumes",
         sub="rm|rmi|kill|stop|restart|pause|node update|node demote|prune|container restart|compose stop|compose restart|container rm|container prune|container kill|container stop|image rm|image prune|image remove|volume rm|volume remove"
         "|volume prune|network rm|network remove|network prune|network disconnect|system prune|system reset|builder prune|buildx prune|buildx rm|compose down"
         "|compose rm|compose kill|swarm leave|stack rm|stack remove|service rm|service remove|node rm|secret rm|config rm|context rm|pod rm|pod stop"
         "|pod kill|machine rm|machine stop|plugin rm|manifest rm|plugin disable|trust revoke",
         none="--help", example="docker system prune -af"),
    Rule(id="compose", programs="docker-compose podman-compose", verb="down rm kill", reason="removes or stops containers", example="docker-compose down -v"),
    Rule(id="cluster", programs="kubectl oc", sub="delete|drain|cordon|taint|replace|rollout undo|rollout restart|evict|adm drain|adm prune|certificate approve|certificate deny|create clusterrolebinding|create rolebinding|auth reconcile|config delete-*|config unset|debug node/*",
         none=DRY, reason="deletes, stops or replaces what runs in a cluster", example="kubectl delete pod web"),
    Rule(id="cluster-elsewhere", programs="kubectl oc", sub="apply|create", code=r"(?m)^(?:-f\n?|--filename[=\n]|-k\n)https?://", none=DRY, reason="brings into a cluster what somebody else wrote",
         example="kubectl apply -f https://example.com/app.yaml"),
    Rule(id="scaled-away", programs="kubectl oc docker docker-compose podman aws gcloud fly flyctl heroku az nomad", reason="stops what others may need", none=DRY,
         code=r"(?m)^--(?:replicas|num-nodes|desired-(?:count|capacity)|min-instances|max-instances|node-count|count|minimum-replicas)(?:=|\n)0$|^(?:ps:)?scale\n(?:[^\n]*\n)*?(?:\S+=|count\n)0$", example="kubectl scale deploy web --replicas=0"),
    Rule(id="cluster-prune", programs="kubectl oc helm argocd flux", any="--prune --force --grace-period=0", none=DRY, reason="deletes what runs in a cluster",
         example="kubectl apply --prune -f ."),
    Rule(id="charts", programs="helm helmfile", sub="uninstall|delete|rollback|del|un|destroy|repo remove|plugin uninstall", none=DRY,
         reason="removes or replaces what runs in a cluster", example="helm uninstall prod"),
    Rule(id="cluster-tools", programs="kubeadm k3d kind minikube eksctl kops k0s k3s-uninstall.sh talosctl rke velero argocd flux istioctl linkerd kustomize stern"
         " k9s crictl ctr nomad consul etcdctl boundary cilium", verb="reset delete destroy uninstall rm remove prune purge drain revoke"
         " del seal force-leave leave deregister system-gc unlock step-down rollback terminate* kv-delete detach tombstone* shutdown suspend rm[pi] stopp rmpf",
         none=DRY, reason=GONE, example="minikube delete"),
    Rule(id="jobs", programs="nomad", sub="job stop|stop|system gc|system reconcile|node drain|node eligibility|acl *|operator *|namespace delete|volume delete|server force-leave", none="--help list info status", reason=GONE,
         example="nomad job stop -purge web"),
    Rule(id="images", programs="buildah skopeo crane regctl oras reg dive img", verb="rm rmi delete* remove* prune", none=DRY, reason="removes or stops containers, images, networks or volumes", example="skopeo delete docker://example.com/app:1"),
    Rule(id="infrastructure", programs="terraform tofu terragrunt cdk cdktf pulumi sam serverless sls copilot packer cdk8s crossplane ansible-galaxy",
         verb="destroy apply taint force-unlock run-all delete remove rm down undeploy replace* purge",
         none="list show plan --help -dry-run --dry-run", reason="changes or destroys infrastructure", example="terraform destroy -auto-approve"),
    Rule(id="infrastructure-state", programs="terraform tofu terragrunt", sub="state rm|state mv|state push|state replace-provider|workspace delete|import",
         reason="changes or destroys infrastructure", example="terraform state push old.tfstate"),
    Rule(id="infrastructure-destroy", programs="terraform tofu terragrunt", any="-destroy -auto-approve", none="plan", reason="changes or destroys infrastructure",
         example="terraform refresh -auto-approve"),
    Rule(id="infrastructure-deployed", programs="pulumi cdk cdktf", sub="up|update|deploy|destroy|import|cancel", any="--yes -y --skip-preview --require-approval* --force --auto-approve", reason="changes or destroys infrastructure",
         example="pulumi up --yes"),
    Rule(id="playbooks", programs="ansible ansible-playbook salt salt-ssh knife pssh parallel-ssh fab cap puppet chef-client bolt",
         any="shell command raw script cmd.run delete -a --args", none="--check --list-hosts --syntax-check --list-tasks", reason="changes many machines", example="ansible all -m shell -a uptime"),
    Rule(id="cloud", programs="aws", reason="deletes, stops or replaces something in a cloud",
         verb="delete* terminate* rm rb remove* deregister* stop* reboot* purge* destroy* disable* detach* revoke* unsubscribe release* reset* restore-db*"
         " put-bucket-* put-*-policy modify* update-*-policy attach-*-policy create-access-key disassociate* deactivate* abort* schedule-key-deletion empty* mv"
         " batch-delete* replace* force-* reject* failover* put-scaling* execute-change-set rotate-secret update-secret* put-secret-value cancel-rotate-secret"
         " put-lifecycle* create-user create-login-profile add-user-to-group add-permission set-queue-attributes send-command update-* authorize-* run-instances run-task request-spot* purchase-* create-key-pair create-policy* create-grant create-role set-* change-* batch-write* leave-* admin-* cancel-* put-account-* put-public-access-block put-retention-policy put-key-policy put-parameter put-role-* put-user-* put-group-* import-key* upload-*certificate* enable-* register-* start-*-restore* transfer-* flush",
         none="--dryrun --dry-run help", example="aws s3 rb s3://bucket --force"),
    Rule(id="cloud-sync", programs="aws gsutil gcloud s3cmd s5cmd mc azcopy az b2 oss ossutil rclone", any="--delete* --del --remove -d --delete-destination*"
         " --delete-removed --delete-unmatched-destination-objects", verb="sync rsync mirror cp", none=DRY,
         reason="makes a store equal to another one, deleting the rest", example="aws s3 sync . s3://bucket --delete"),
    Rule(id="cloud-google", programs="gcloud gsutil bq firebase", verb="delete* rm rb remove* stop reset destroy* disable* purge* suspend abandon* detach*"
         " set-iam-policy add-iam-policy-binding remove-iam-policy-binding failover restore cancel* revoke* undelete* clear* truncate* mv hosting:disable *:delete *:disable"
         " database:remove drain rollback acl iam defacl lifecycle retention versioning ch resize patch firewall-rules seek move transfer promote-replica import", none="--help list describe", reason="deletes, stops or replaces something in a cloud",
         example="gcloud compute instances delete web"),
    Rule(id="cloud-azure", programs="az azd azcopy func", verb="delete* purge stop deallocate restart remove* down destroy* reset* revoke* disable* cancel* failover detach"
         " clear wipe *-delete run-command assignment rule regenerate* renew* reset-* unlock *-revoke config-zip appsettings set-policy update", none="--help list show", reason="deletes, stops or replaces something in a cloud", example="az group delete -n prod --yes"),
    Rule(id="cloud-other", programs="heroku vercel netlify fly flyctl railway render doctl hcloud linode-cli vultr-cli scw ibmcloud oci aliyun tccli exo openstack nova swift"
         " wrangler supabase neonctl pscale planetscale turso surge linode hetzner gandi ovh binarylane ngrok upcloud digitalocean civo kamal dokku cf eb amplify appwrite cloudflared convex sentry-cli"
         " dokploy coolify", reason="deletes, stops or replaces something in a cloud",
         verb="delete* *-delete *-remove *-destroy *:delete *:destroy config:set *:remove *:reset *:kill *:stop *:unset *:rollback *:detach *:clear destroy* rm remove* del unlink rollback reset rebuild terminate* poweroff power_off"
         " shutdown stop restart ps:* maintenance:on pg:* apps:destroy purge* suspend scale unset env:unset secrets:unset deactivate* wipe promote sites:delete"
         " disable* detach* kv:* transfer drop branch-delete shrink", none=DRY, example="heroku apps:destroy web"),
    Rule(id="hosting", programs="gh glab hub tea bb", reason="deletes or changes something in a hosting service",
         sub="* delete|* delete-*|* archive|* remove|* transfer|* revoke|* unset|* purge|repo edit|* disable|auth token|* remove-*"
         "|* deprovision|* unlink|* rollback|* rm|delete|auth refresh|ssh-key add|gpg-key add|* deploy-key add|alias delete|release delete-asset", example="gh repo delete owner/repo"),
    Rule(id="hosting-forced", programs="gh glab hub tea", any="--admin", reason="deletes or changes something in a hosting service", example="gh pr merge 12 --admin"),
    Rule(id="pipelines", programs="jfrog jf nexus3 cloudsmith circleci gitlab-runner jenkins-cli buildkite-agent drone travis act-runner concourse fly-ci tkn argo jenkins-jobs",
         verb="delete* del remove* unregister destroy* disable* purge* terminate reset* shutdown* wipe-* safe-* quiet-down reload-* groovy* prune stop-* kill",
         none=DRY, reason="deletes or stops what builds and deploys", example="gitlab-runner unregister --all-runners"),
    Rule(id="pipelines-java", programs="java", verb="delete-* safe-shutdown shutdown restart safe-restart groovy groovysh quiet-down disable-* offline-node disconnect-node clear-queue"
         " remove-*", reason="deletes or stops what builds and deploys", example="java -jar jenkins-cli.jar delete-job web"),
    Rule(id="sql", programs="psql mysql mariadb sqlite3 sqlite sqlcmd mssql-cli pgcli mycli litecli cockroach clickhouse-client clickhouse cqlsh duckdb sqlplus bq isql usql snowsql"
         " presto trino influx hive beeline spark-sql rqlite turso snow databricks mysqlsh wrangler supabase neonctl cypher-shell d1 xata edgedb surreal ysqlsh tidb", code=SQL, reason="deletes or replaces data in a database, or reaches outside it",
         example="psql -c 'DROP TABLE users'"),
    Rule(id="mongo", programs="mongo mongosh arangosh couchbase-cli cbq", code=MONGO, reason="deletes data from a database", example="mongosh --eval 'db.users.drop()'"),
    Rule(id="redis", programs="redis-cli valkey-cli keydb-cli memcached-tool memcflush", reason="deletes data from a database, or changes its server",
         code=r"(?im)^(?:flushall|flushdb|shutdown|debug|del|unlink|config\s*\n?(?:set|rewrite|resetstat)|slaveof|replicaof|eval|script|module|migrate|cluster\s*\n?(?:reset|failover|forget)|swapdb|bgrewriteaof|--cluster\n(?:del-node|fix|reshard|import|call)|acl\s*\n?(?:set|del)\w*|hdel|getdel|rename(?:nx)?|spop|srem|zrem\w*|xdel|expire(?:at)?|function\s*\n?(?:flush|delete)|failover|client\s*\n?kill|xgroup\s*\n?destroy|lrem|ltrim|xtrim|restore)\b|flush_all",
         example="redis-cli FLUSHALL"),
    Rule(id="database-tools", programs="dropdb dropuser pg_resetwal pg_dropcluster memcflush", none="--help --version", reason="deletes a database or its users",
         example="dropdb prod"),
    Rule(id="database-admin", programs="mysqladmin mariadb-admin pg_ctl pg_ctlcluster mongod cockroach nodetool influx neo4j-admin cbq couchbase-cli rethinkdb patronictl repmgr orchestrator vtctl", reason="deletes or stops a database",
         verb="drop shutdown kill flush-* stop promote restart --shutdown node decommission removenode drain clearsnapshot truncatehints password delete* remove* failover switchover reinit load",
         example="mysqladmin drop prod"),
    Rule(id="database-restore", programs="pg_restore mongorestore", any="-c --clean --drop", reason="replaces a database", example="mongorestore --drop dump"),
    Rule(id="migrations", programs="rails rake prisma knex sequelize sequelize-cli typeorm alembic django-admin manage.py artisan drizzle-kit dbmate goose migrate diesel sqlx mix"
         " npx php python bundle", reason="deletes or replaces a database",
         code=r"(?m)^(?:db:(?:drop|reset|purge|schema:load|rollback|truncate\S*|wipe|migrate:reset|migrate:undo:all)|migrate:(?:fresh|reset|refresh|rollback|undo\S*)|schema:drop|ecto\.(?:drop|reset|rollback))$"
         r"|manage\.py\n(?:flush|reset_db|sqlflush)$|\A(?:flush|reset_db|downgrade|drop|down|reset)$|migrate\nreset$|^migrate\n\S+\nzero$|\.delete\(\)|--force-reset|--accept-data-loss|database\n(?:drop|reset)$", example="rails db:drop"),
    Rule(id="migrations-clean", programs="flyway liquibase", verb="clean drop* undo rollback*", reason="deletes or replaces a database", example="flyway clean"),
    Rule(id="messaging", programs="kafka-* *rabbitmqctl rabbitmqadmin nats nsc kcat rpk pulsar-admin redpanda activemq mosquitto_ctrl kaf", reason="deletes or changes queues, streams or their users",
         any="--delete --delete-config --add-config --alter --remove --reset-offsets --execute delete* purge* reset stop_app stop forget_cluster_node remove_* clear_* rm del remove truncate close_* hard_reset force_* eval seal"
         " set_permissions change_password add_user set_user_tags kick offline-* --delete-offsets wipe rotate* shutdown stop_* restart_*", none="--dry-run --help --list --describe", example="rabbitmqctl delete_queue orders"),
    Rule(id="messaging-files", programs="kafka-delete-records* kafka-leader-election* kafka-storage*", reason="deletes or changes queues, streams or their users",
         example="kafka-delete-records --offset-json-file a.json"),
    Rule(id="backups", programs="restic borg borgmatic kopia duplicity tarsnap velero bup rdiff-backup attic rsnapshot duplicacy timeshift snapper btrbk zfs-autobackup tmutil wal-g pgbackrest barman",
         reason="deletes backups", any="forget prune compact rdelete delete* repo-delete remove* --delete* purge break-lock expire cleanup recreate undelete wipe rm --remove* --prune stanza-delete"
         " rebuild-index repair deletelocalsnapshots --clean", none="-n --dry-run --help list -h", example="restic forget --keep-last 1 --prune"),
    Rule(id="storage", programs="rclone", sub="sync|delete|deletefile|purge|move|moveto|rmdir|rmdirs|cleanup|bisync|dedupe|config delete", none="-n --dry-run --help",
         reason="deletes, moves or replaces files in a store", example="rclone purge remote:bucket"),
    Rule(id="storage-tools", programs="s3cmd s5cmd mc b2 gsutil ossutil swift minio-client mcli", verb="rm rb del delete* remove* mv purge expire setpolicy clear-*",
         none=DRY, reason="deletes, moves or replaces files in a store", example="s3cmd rb s3://bucket"),
    Rule(id="mirror", programs="rsync", any="--delete* --del --remove-source-files --remove-sent-files", none="-n --dry-run", reason="deletes what the source has not",
         example="rsync -a --delete src/ dest/"),
    Rule(id="mirror-other", programs="unison lftp robocopy", any="-batch mirror /MIR /PURGE -force", reason="deletes what the source has not", example="robocopy a b /MIR"),
    Rule(id="secrets-policy", programs="vault bao", sub="policy write|policy delete|write auth/*|write sys/*|write identity/*|write */roles/*|token create|operator init|operator generate-root|operator *|audit *|auth enable|namespace *", none="--help list status read",
         reason="deletes, changes or hands out secrets", example="vault policy write admin admin.hcl"),
    Rule(id="secrets-managers", programs="vault doppler op bw infisical chamber sops akeyless keeper lpass berglas conjur teller pass gopass", reason="deletes, changes or hands out secrets",
         verb="delete* del destroy revoke remove* disable purge rm seal unset export kv-delete prune rekey rotate step-down dump deny reset* unenroll suspend",
         none="--help list status", example="vault kv delete secret/db"),
    Rule(id="search-engines", programs="algolia elasticsearch-* meilisearch curator opensearch-* solr typesense weaviate qdrant elasticdump es2csv",
         verb="delete* clear* purge* remove* indices:delete flush reset* unlink rm drop detach-cluster unsafe-bootstrap shrink rollover",
         reason="deletes data from a search engine", none="--dry-run --help", example="algolia indices delete products"),
    Rule(id="virtual-machines", programs="govc esxcli machinectl virsh vboxmanage VBoxManage prlctl vmrun qm pct lxc incus multipass vagrant limactl orb colima tart utmctl xl",
         verb="vm.destroy *.destroy *.remove terminate kill disable destroy* undefine delete* unregistervm remove* reset purge shutdown vol-delete pool-destroy pool-delete snapshot-delete poweroff rm kill rollback net-destroy managedsave-remove"
         " revert snapshot-revert delsnapshot deleteSnapshot deleteVM", reason="deletes or stops a machine", none="--help", example="virsh undefine web"),
    Rule(id="mail-store", programs="postsuper exim exim4 doveadm cyradm lprm cancel lpadmin mailman", any="-d -Mrm -Mg -Mf expunge delete deletemailbox dm -x remove_members rmlist", none="-bp -q", reason="deletes mail or jobs that wait",
         example="postsuper -d ALL"),
    Rule(id="sites", programs="wp drush magento bin/magento concrete5 craft typo3 occ", verb="delete* reset drop drop-* clean uninstall rollback sql-drop sql-query site:install entity:delete search-replace *:delete *:reset *:uninstall *:rollback *:clean user:create",
         none="--help --dry-run list", reason="deletes or replaces what a site holds", example="wp db reset --yes"),
    Rule(id="sites-users", programs="wp drush occ", sub="user create|user set-role|user update|user:create|user:role:add", reason="deletes or replaces what a site holds", example="wp user create mallory m@example.com --role=administrator"),
    Rule(id="mail-sent", programs="mail mailx sendmail mutt swaks msmtp ssmtp", any="-a -A --attach", reason="sends files by mail", example="mail -A data.db someone@example.com"),
    Rule(id="service-workers", programs="celery rq sidekiqctl airflow dbt prefect dagster luigi", verb="purge flush delete* reset empty clear", none="--help list", reason=GONE, example="celery -A app purge"),
    Rule(id="api-mutation", programs="curl http https xh gh wget", code=r"(?i)mutation\b[^}]{0,60}?(?:delete|remove|destroy|archive|transfer|disable)\w*|^-XPUT\b|/_cluster/settings", reason="deletes or changes something through an API",
         example="curl -d '{\"query\":\"mutation { deleteItem(id: 1) }\"}' https://example.com/graphql"),
    Rule(id="dns", programs="nsupdate cli53 flarectl octodns-sync lexicon dnscontrol certbot acme.sh", verb="delete* rrdelete revoke purge push remove* --doit unregister", reason="changes names or certificates",
         example="certbot delete --cert-name example.com"),
)  # fmt: skip
